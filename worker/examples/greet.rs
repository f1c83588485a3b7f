//! cargo run -p leasehold-worker --example greet -- redis://127.0.0.1:6379
//!
//! A worker with one handler, for the tasks that `cargo run -p leasehold-producer --example enqueue` enqueues.
//! Ctrl-C drains it.

use std::error::Error;

use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Task for Greet {
    const NAME: &'static str = "greet";
    const QUEUE: &'static str = "greetings";
    type Output = String;
}

async fn greet(context: Context, task: Greet) -> Result<String, TaskError> {
    if task.name.is_empty() {
        return Err(TaskError::fatal("there is nobody to greet"));
    }
    context.progress(0.5, "thinking of words")?;
    context.log(&format!("attempt {} greets", context.attempt()));
    Ok(format!("hello {}", task.name))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Worker::connect(url).await?.queue(Greet::QUEUE, 16).handle(greet).run_until(shutdown).await?;
    Ok(())
}
