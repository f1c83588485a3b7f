//! Whether a handler's output is a result: by the rule of its task, within a bounded time.

use std::time::Duration;

use leasehold_common::result_rule::{JUDGE_STACK, ResultRule};
use leasehold_common::time::display_duration;
use tokio::sync::oneshot;

/// A schema that takes longer has too many ways to the same place: branches (`anyOf` and its like) that lead to the
/// same schemas again multiply with each level.
const WITHIN: Duration = Duration::from_secs(5);

/// The output, if it is a result. Else what is wrong with it, without quoting it.
pub(crate) async fn judge(rule: &ResultRule, output: Vec<u8>) -> Result<Vec<u8>, String> {
    judge_within(WITHIN, rule, output).await
}

async fn judge_within(within: Duration, rule: &ResultRule, output: Vec<u8>) -> Result<Vec<u8>, String> {
    if !matches!(rule, ResultRule::JsonSchema(_)) {
        return rule.check(&output).map(|()| output);
    }
    // A thread of its own: no runtime waits for it when it does not come back.
    let (tell, told) = oneshot::channel();
    let rule = rule.clone();
    let thread = std::thread::Builder::new().name("leasehold-judge".to_owned()).stack_size(JUDGE_STACK);
    let judging = thread.spawn(move || {
        let verdict = rule.check(&output).map(|()| output);
        let _ = tell.send(verdict);
    });
    if let Err(error) = judging {
        return Err(format!("the result could not be judged: no thread: {error}"));
    }
    match tokio::time::timeout(within, told).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => Err("the result could not be judged: its schema broke the validator".to_owned()),
        Err(_) => {
            let within = display_duration(within);
            tracing::error!(
                "a result was not judged by its schema within {within}; a thread is still busy with it"
            );
            Err(format!(
                "the result could not be judged by its rule `json_schema` within {within}: the schema \
                         branches too often"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_common::json::parse;

    /// Each level doubles the ways to the last.
    fn doubling(levels: usize) -> ResultRule {
        let next = |level: usize| format!(r##"{{"$ref": "#/$defs/l{level}"}}"##);
        let defs: Vec<String> = (0..levels)
            .map(|level| format!(r#""l{level}": {{"anyOf": [{0}, {0}]}}"#, next(level + 1)))
            .collect();
        let schema = format!(
            r##"{{"$ref": "#/$defs/l0", "$defs": {{{}, "l{levels}": {{"type": "string"}}}}}}"##,
            defs.join(", ")
        );
        ResultRule::JsonSchema(parse("result schema", &schema).unwrap())
    }

    #[tokio::test]
    async fn r63_a_schema_that_never_ends_is_not_waited_for() {
        doubling(60).validate().unwrap();
        let endless = judge_within(Duration::from_millis(50), &doubling(60), vec![7]).await.unwrap_err();
        assert!(endless.contains("within 50ms: the schema branches too often"), "{endless}");
        let short = judge(&doubling(3), vec![7]).await.unwrap_err();
        assert!(short.contains("keyword \"anyOf\""), "{short}");
        assert_eq!(judge(&doubling(3), vec![0xa1, b'x']).await, Ok(vec![0xa1, b'x']));
        assert_eq!(judge(&ResultRule::Any, vec![0xc0]).await, Ok(vec![0xc0]));
    }
}
