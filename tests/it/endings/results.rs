//! Only what follows the rule of its task is a result.

use leasehold_producer::{
    Error, FailureKind, Payload, RawTask, ResultRule, Spec, TaskHandle, TaskId, TaskState,
};
use leasehold_worker::{Context, Task, TaskError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::aborts::kit::{Kit, quick};

/// An agent that answers with what it is told.
#[derive(Serialize, Deserialize)]
struct Agent {
    says: Value,
}

impl Task for Agent {
    const NAME: &'static str = "agent";
    type Output = Value;
}

async fn agent(_context: Context, task: Agent) -> Result<Value, TaskError> {
    Ok(task.says)
}

/// The final answer of the agent.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    answer: String,
    sources: Vec<String>,
}

fn final_answer() -> ResultRule {
    ResultRule::JsonSchema(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["answer", "sources"],
        "properties": {
            "answer": { "type": "string", "minLength": 1 },
            "sources": { "type": "array", "items": { "type": "string" } }
        },
        "additionalProperties": false
    }))
}

async fn ask(kit: &Kit, id: &str, says: Value, rule: ResultRule) -> TaskHandle<Value> {
    let enqueue = kit.producer.enqueue(Agent { says }).spec(Spec { policy: quick(), ..Spec::default() });
    enqueue.result_rule(rule).id(TaskId::new(id).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_raw_tool_request_is_no_result() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, |worker| worker.handle(agent)).await;
    let request = json!({"tool": "search", "arguments": {"query": "the merger of A and B"}});
    let handle = ask(&kit, "asks", request, final_answer()).await;
    let failed = handle.wait().await.unwrap_err();
    let Error::TaskFailed(detail) = failed else { panic!("{failed}") };
    let failure = detail.last_failure().unwrap();
    assert_eq!((failure.kind, detail.record.attempt), (FailureKind::InvalidResult, 1), "and is not retried");
    assert_eq!(detail.output, None);
    let said = &failure.message;
    assert!(
        said.contains("`json_schema`") && said.contains("keyword \"") && said.contains("at \"\""),
        "{said}"
    );
    for data in ["search", "tool", "query", "merger"] {
        assert!(!said.contains(data), "{said}");
    }
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_normal_success() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, |worker| worker.handle(agent)).await;
    let answer = Answer { answer: "42".to_owned(), sources: vec!["the guide".to_owned()] };
    let handle = ask(&kit, "answers", serde_json::to_value(&answer).unwrap(), final_answer()).await;
    assert_eq!(handle.wait().await.unwrap(), serde_json::to_value(&answer).unwrap());
    assert_eq!(kit.reaches(handle.id(), TaskState::Completed).await.attempt, 1);
    let typed = kit.producer.typed_task::<Answer>(kit.queue.clone(), handle.id().clone());
    assert_eq!(typed.wait().await.unwrap(), answer);
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_nothing_is_no_result_where_one_is_required() {
    let kit = Kit::new().await;
    let hands = kit.hands(4, |worker| worker.handle(agent)).await;
    for (number, nothing) in [json!(null), json!(""), json!([]), json!({})].into_iter().enumerate() {
        let handle = ask(&kit, &format!("required {number}"), nothing.clone(), ResultRule::Required).await;
        assert!(matches!(handle.wait().await, Err(Error::TaskFailed(_))), "{nothing}");
        let failure = kit.detail(handle.id()).await.last_failure().unwrap().clone();
        assert_eq!(failure.kind, FailureKind::InvalidResult);
        assert!(failure.message.starts_with("the result breaks its rule `required`: it is "), "{failure:?}");
        let handle = ask(&kit, &format!("any {number}"), nothing.clone(), ResultRule::Any).await;
        assert_eq!(handle.wait().await.unwrap(), nothing);
    }
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_a_bad_schema_is_refused_before_it_is_sent() {
    let kit = Kit::new().await;
    for (schema, why) in [
        (json!({"type": "nothing"}), "is no JSON Schema that can be used"),
        (json!({"$ref": "https://example.org/schema"}), "is no JSON Schema that can be used"),
        (json!({"$ref": "file:///etc/hostname"}), "is no JSON Schema that can be used"),
        (json!({"description": "x".repeat(16 * 1024)}), "over the limit of 16384"),
    ] {
        let mut task = RawTask::new(kit.queue.clone(), "agent".parse().unwrap(), Payload::Json(json!(null)));
        task.spec.result_rule = ResultRule::JsonSchema(schema);
        let error = kit.producer.enqueue_raw(task).await.unwrap_err().to_string();
        assert!(error.starts_with("invalid result schema: ") && error.contains(why), "{error}");
    }
    let command = leasehold_producer::ExecPayload { argv: vec!["true".into()], ..Default::default() };
    let error = kit.producer.exec("default", command).result_rule(ResultRule::Required).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid result rule: is for handlers"), "{error}");
    let look = kit.store().inspect(&kit.queue, &[]).await.unwrap().unwrap();
    assert_eq!(look.facts.total("enqueued"), 0);
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_another_rule_under_the_same_id_is_another_task() {
    let kit = Kit::new().await;
    let first = ask(&kit, "same", json!(1), final_answer()).await;
    assert_eq!(ask(&kit, "same", json!(1), final_answer()).await.id(), first.id());
    let other =
        kit.producer.enqueue(Agent { says: json!(1) }).spec(Spec { policy: quick(), ..Spec::default() });
    let other = other.id(TaskId::new("same").unwrap()).result_rule(ResultRule::Required).await;
    assert!(matches!(other, Err(Error::Conflict { .. })), "{other:?}");
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_the_command_line_takes_rules_and_schemas() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, |worker| worker.handle(agent)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let schema = file("schema.json", "{\n  \"type\": \"string\",\n  \"pattern\": \"^ok$\"\n}\n");
    for (flags, says, end) in [
        (vec!["--result-schema", &schema], "ok", TaskState::Completed),
        (vec!["--result-schema", &schema], "no", TaskState::Failed),
        (vec!["--result", "required"], "", TaskState::Failed),
        (vec!["--result", "any"], "", TaskState::Completed),
    ] {
        let payload = json!({ "says": says }).to_string();
        let id = kit.cli(["enqueue", "default", "agent", &payload]).args(&flags).run().success().line();
        let id = TaskId::new(id).unwrap();
        assert_eq!(kit.reaches(&id, end).await.state, end, "{flags:?}");
        let rule = kit.show(&id)["result_rule"].as_str().unwrap().to_owned();
        assert_eq!(rule, if flags[0] == "--result" { flags[1] } else { "json_schema" });
        let text = kit.ok(&["task", "show", id.as_str()]).stdout;
        assert_eq!(text.contains("must follow its rule"), rule != "any", "{text}");
    }
    let no_json = file("broken.json", "{");
    let no_schema = file("none.json", r#"{"type": 7}"#);
    for (path, why) in [
        (no_json.as_str(), "invalid result_schema: is JSON that ends too early"),
        (no_schema.as_str(), "invalid result schema: is no JSON Schema that can be used"),
        ("/nonexistent", "invalid result_schema: /nonexistent: No such file"),
    ] {
        let refused = kit.cli(["enqueue", "default", "agent", "--result-schema", path]).run().expect_code(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    let both = ["enqueue", "default", "agent", "--result", "any", "--result-schema", &schema];
    kit.cli(both).run().expect_code(2);
    hands.stop().await;
    kit.end([]).await;
}
