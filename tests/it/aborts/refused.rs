//! Bad input is told with its field, and changes nothing.

use super::kit::Kit;

#[tokio::test(flavor = "multi_thread")]
async fn r97_bad_input_is_told_with_its_field_and_changes_nothing() {
    let kit = Kit::new().await;
    let id = kit.exec(&["--delay", "1d"], "true");
    let digest = kit.redis.digest();
    let long = "x".repeat(65);
    let env = "A".repeat(2_000_000);
    let env = format!("BIG={env}");
    let id = id.as_str();
    let cases: [(&[&str], &str); 16] = [
        (&["exec", "a:b", "--", "true"], "queue"),
        (&["exec", "{q}", "--", "true"], "queue"),
        (&["exec", &long, "--", "true"], "queue"),
        (&["exec", "", "--", "true"], "queue"),
        (&["exec", "default", "--max-attempts", "-1", "--", "true"], "max_attempts"),
        (&["exec", "default", "--run-timeout", "0", "--", "true"], "run_timeout"),
        (&["exec", "default", "--run-timeout", "1e3", "--", "true"], "run_timeout"),
        (&["exec", "default", "--abort-grace", "-5s", "--", "true"], "abort_grace"),
        (&["exec", "default", "--owner", "a\nb", "--", "true"], "owner"),
        (&["exec", "default", "--env", "NO_VALUE", "--", "true"], "env"),
        (&["exec", "default", "--id", "a\u{202e}b", "--", "true"], "id"),
        (&["exec", "default", "--wait", "--yield", "1s", "--", "true"], "--yield"),
        (&["exec", "default"], "CMD"),
        (&["task", "abort", id, "--grace", "soon"], "grace"),
        (&["task", "abort", id, "--grace", "10y"], "grace"),
        (&["task", "show", id, "--queue", "a b"], "queue"),
    ];
    for (args, field) in cases {
        let said = kit.cli(args).run().expect_code(2);
        assert!(said.stderr.contains(field), "{args:?} does not name {field}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{args:?}");
        assert!(!said.stderr.contains('\u{202e}'), "{args:?}");
    }
    assert_eq!(kit.redis.digest(), digest, "something was changed");
    // Too large for one argument of this machine, or for the queue: either way nothing is enqueued.
    let halves = ["exec", "default", "--env", &env[..100_000], "--", "true", &env[..100_000]];
    let stdin = vec![b'x'; 1024 * 1024 + 1];
    let said = kit.cli(["exec", "default", "--stdin", "-", "--", "cat"]).stdin(stdin).run().expect_code(2);
    assert!(said.stderr.contains("stdin"), "{}", said.stderr);
    assert_eq!(kit.redis.digest(), digest);
    kit.cli(halves).run().success();
    assert_ne!(kit.redis.digest(), digest, "what is within the limits is taken");
    kit.end([]).await;
}
