//! cargo run -p leasehold-producer --example enqueue -- redis://127.0.0.1:6379
//!
//! Enqueues three tasks for a handler called `greet`, one of them by an id of its own and twice, and says what
//! Redis made of each. A worker with that handler would run them.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use leasehold_producer::{Enqueued, Producer, Task};
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

fn greet(name: &str) -> Greet {
    Greet { name: name.to_owned() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let producer = Producer::connect(&url).await?;

    let now = producer.enqueue(greet("Ann")).await?;
    let later = producer.enqueue(greet("Ben")).delay(Duration::from_secs(60)).max_attempts(2).await?;
    let once = producer.enqueue(greet("Cleo")).id("greet-cleo").await?;
    // The same id with the same content is the same task, however often it is enqueued.
    let again = producer.enqueue(greet("Cleo")).id("greet-cleo").await?;

    let mut out = io::stdout();
    for handle in [now, later, once, again] {
        let what = match handle.enqueued() {
            Some(Enqueued::Created(state)) => format!("created, {state}"),
            _ => "was there already".to_owned(),
        };
        writeln!(out, "{} {what}", handle.id())?;
    }
    Ok(())
}
