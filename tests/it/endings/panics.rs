//! A handler's panic fails its attempt, and says where it happened.

use leasehold_producer::{Policy, TaskState};
use leasehold_worker::{Context, Task, TaskError};
use serde::{Deserialize, Serialize};

use crate::aborts::kit::{Kit, quick};

#[derive(Serialize, Deserialize)]
struct Stumble;

impl Task for Stumble {
    const NAME: &'static str = "stumble";
    type Output = ();
}

const LINE: u32 = line!() + 2;
async fn stumble(_context: Context, _task: Stumble) -> Result<(), TaskError> {
    panic!("over a {}", "stone")
}

#[tokio::test(flavor = "multi_thread")]
async fn r92_a_panic_is_told_with_file_and_line() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, |worker| worker.handle(stumble)).await;
    let id = kit.enqueue("stumbles", &Stumble, Policy { max_attempts: 2, ..quick() }).await;
    let record = kit.reaches(&id, TaskState::Failed).await;
    assert_eq!(record.attempt, 2, "the worker goes on, and so does the task");
    let said = format!("panicked at {}:{LINE}: over a stone", file!());
    for failure in kit.detail(&id).await.failures {
        assert_eq!(failure.message, said);
    }
    hands.stop().await;
    kit.end([]).await;
}
