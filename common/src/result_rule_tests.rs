//! Rules against outputs; schemas that are none, lead astray or never end.

use serde_json::json;

use super::*;
use crate::json::to_msgpack;

fn told(schema: &Value, output: &Value) -> Result<(), String> {
    ResultRule::JsonSchema(schema.clone()).check(&to_msgpack(output, Bytes::Tagged).unwrap())
}

fn refused(schema: Value) -> String {
    ResultRule::JsonSchema(schema).validate().unwrap_err().to_string()
}

#[test]
fn r63_required_means_something() {
    for (empty, what) in [
        (json!(null), "null"),
        (json!(""), "an empty text"),
        (json!([]), "an empty array"),
        (json!({}), "an empty map"),
        (json!({"$bytes": ""}), "no bytes"),
    ] {
        let output = to_msgpack(&empty, Bytes::Tagged).unwrap();
        let said = ResultRule::Required.check(&output).unwrap_err();
        assert_eq!(said, format!("the result breaks its rule `required`: it is {what}"));
        assert_eq!(ResultRule::Any.check(&output), Ok(()));
    }
    for some in [json!(0), json!(false), json!(" "), json!([null]), json!({"a": null})] {
        assert_eq!(ResultRule::Required.check(&to_msgpack(&some, Bytes::Tagged).unwrap()), Ok(()), "{some}");
    }
}

#[test]
fn r63_a_breach_names_place_and_keyword_and_no_data() {
    let schema = json!({
        "type": "object",
        "required": ["answer"],
        "properties": { "answer": { "type": "array", "items": { "type": "string", "maxLength": 3 } } },
        "additionalProperties": { "enum": [1, 2] }
    });
    assert_eq!(told(&schema, &json!({"answer": ["a"], "more": 1})), Ok(()));
    for (output, said) in [
        (json!({"secret": 1}), r#"keyword "required" at "" (schema at "/required")"#),
        (json!("secret"), r#"keyword "type" at """#),
        (json!({"answer": ["a", "secret"]}), r#"keyword "maxLength" at "/answer/1" (schema at "/pro"#),
        (json!({"answer": [], "4111111111111111": "secret"}), r#"keyword "enum" at "/*""#),
        (json!({"answer": [], "secret/~": 9}), r#"keyword "enum" at "/*""#),
    ] {
        let breach = told(&schema, &output).unwrap_err();
        assert!(breach.starts_with("the result breaks its rule `json_schema`: "), "{breach}");
        assert!(breach.contains(said) && !breach.contains("secret") && !breach.contains("4111"), "{breach}");
    }
    let no_json = ResultRule::JsonSchema(json!(true)).check(&[0x81, 0x01, 0x01]).unwrap_err();
    assert!(
        no_json.contains("it has no form as JSON: invalid MessagePack: holds a map with a key"),
        "{no_json}"
    );
}

#[test]
fn r63_bytes_are_judged_as_they_map() {
    let schema = json!({"type": "object", "required": ["$bytes"]});
    assert_eq!(told(&schema, &json!({"$bytes": "AP8="})), Ok(()));
}

#[test]
fn r63_a_schema_that_is_none_is_refused() {
    for schema in [
        json!(7),
        json!({"type": "nothing"}),
        json!({"required": "answer"}),
        json!({"pattern": "("}),
        json!({"pattern": "(?=a)b"}),
        json!({"pattern": "((a{999}){999}){999}"}),
        json!({"$schema": "https://example.org/schema"}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"$ref": "https://example.org/schema"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "other.json"}),
    ] {
        let said = refused(schema.clone());
        assert!(
            said.starts_with("invalid result schema: is no JSON Schema that can be used: "),
            "{schema}: {said}"
        );
    }
    let large = refused(json!({"description": "x".repeat(MOST_SCHEMA)}));
    assert!(
        large.starts_with("invalid result schema: ") && large.ends_with("over the limit of 16384"),
        "{large}"
    );
    let deep = (0..1000).fold(json!(true), |inner, _| json!({ "not": inner }));
    assert_eq!(
        ResultRule::JsonSchema(deep).validate().unwrap_err().to_string(),
        "invalid result schema: is nested deeper than 128"
    );
}

#[test]
fn r63_a_schema_may_use_itself_and_the_standards() {
    let tree = json!({
        "$ref": "#/$defs/tree",
        "$defs": { "tree": { "type": "array", "items": { "$ref": "#/$defs/tree" } } }
    });
    assert_eq!(told(&tree, &json!([[], [[]]])), Ok(()));
    assert!(told(&tree, &json!([[], [7]])).unwrap_err().contains(r#"at "/1/0""#));
    let meta = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    assert_eq!(told(&meta, &json!({"type": "string"})), Ok(()));
    let older = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]});
    assert!(told(&older, &json!([7])).is_err());
}

#[test]
fn r63_a_schema_that_leads_in_a_circle_ends() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({
            "$ref": "#/$defs/a",
            "$defs": { "a": { "anyOf": [{"$ref": "#/$defs/b"}] }, "b": { "not": {"$ref": "#/$defs/a"} } }
        }),
        json!({"$id": "https://example.org/x", "$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}),
    ] {
        let rule = ResultRule::JsonSchema(schema);
        rule.validate().unwrap();
        let _either_is_fine = rule.check(&[7]);
    }
}

#[test]
fn rules_round_trip_as_text() {
    for rule in
        [ResultRule::Any, ResultRule::Required, ResultRule::JsonSchema(json!({"maximum": 1.0, "a": []}))]
    {
        let bytes = rmp_serde::to_vec(&rule).unwrap();
        assert_eq!(rmp_serde::from_slice::<ResultRule>(&bytes).unwrap(), rule);
    }
    let schema = rmp_serde::to_vec(&ResultRule::JsonSchema(json!({"b": 1, "a": 2}))).unwrap();
    assert_eq!(schema, b"\x81\xabjson_schema\xad{\"a\":2,\"b\":1}");
}

/// A chain of so many definitions, each wrapped into the next by `wrap`; the last goes one level into the value and
/// begins anew.
fn chain(links: usize, wrap: impl Fn(Value) -> Value) -> Value {
    let link = |to: usize| json!({ "$ref": format!("#/$defs/{to}") });
    let mut defs: serde_json::Map<_, _> =
        (0..links).map(|from| (from.to_string(), wrap(link(from + 1)))).collect();
    defs.insert(links.to_string(), json!({ "items": link(0) }));
    json!({ "$ref": "#/$defs/0", "$defs": defs })
}

type Wrap = fn(Value) -> Value;

/// Every way to lead on without going into the value.
const WRAPS: [Wrap; 6] = [
    |inner| inner,
    |inner| json!({ "allOf": [inner] }),
    |inner| json!({ "anyOf": [false, inner] }),
    |inner| json!({ "oneOf": [inner] }),
    |inner| json!({ "not": { "not": inner } }),
    |inner| json!({ "if": true, "then": inner }),
];

#[test]
fn r63_no_schema_and_no_result_take_more_stack_than_there_is() {
    for (n, wrap) in WRAPS.into_iter().enumerate() {
        // On this thread's 2 MiB, as a producer would.
        let mut links = 600;
        while ResultRule::JsonSchema(chain(links, wrap)).validate().is_err() {
            links -= 10;
        }
        for depth in [127, 60, 20] {
            let schema = chain(links, wrap);
            let most = MOST_STEPS / depth;
            let fits = (1..links).rev().find(|links| parts(&chain(*links, wrap)) <= most);
            let deep = (0..depth - 1).fold(json!([]), |inner, _| json!([inner]));
            let judge = move |schema: Value| {
                let deep = deep.clone();
                let thread = std::thread::Builder::new().stack_size(JUDGE_STACK / 4);
                thread.spawn(move || told(&schema, &deep)).unwrap().join().unwrap()
            };
            if parts(&schema) > most {
                let refused = judge(schema).unwrap_err();
                assert!(refused.contains("too deep for a schema of"), "{n} {depth}: {refused}");
            }
            judge(chain(fits.unwrap(), wrap)).unwrap_or_else(|refused| panic!("{n} {depth}: {refused}"));
        }
    }
}
