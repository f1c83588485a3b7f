//! What panics outside of a handler prints no secret of a run in hand. A binary of its own, for the hook is the process's.

use std::sync::{Arc, Mutex};

use leasehold_worker::testing::Trial;
use leasehold_worker::{Context, Task, TaskError};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Login;

impl Task for Login {
    const NAME: &'static str = "login";
    type Output = ();
}

async fn panics_in_a_task(text: &'static str) {
    tokio::spawn(async move { panic!("{text}") }).await.unwrap_err();
}

#[tokio::test]
async fn r64_a_panic_in_a_task_that_a_handler_spawned_shows_no_secret() {
    let printed = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&printed);
    std::panic::set_hook(Box::new(move |info| hook.lock().unwrap().push(info.to_string())));
    let report = Trial::of(&Login)
        .run(|context: Context, _: Login| async move {
            context.redact("hunter22")?;
            panics_in_a_task("it was hunter22").await;
            panics_in_a_task("it was nothing").await;
            Ok::<_, TaskError>(())
        })
        .await;
    drop(report);
    panics_in_a_task("hunter22 is nobody's now").await;
    let printed = printed.lock().unwrap();
    assert_eq!(printed.len(), 2, "{printed:?}");
    assert!(printed[0].contains("it was nothing") && printed[1].contains("nobody's now"), "{printed:?}");
}
