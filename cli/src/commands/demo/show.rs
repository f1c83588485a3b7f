//! What a person sees meanwhile, on stderr: a bar on a terminal, plain lines elsewhere, and a short narration.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold_common::state::TaskState;
use leasehold_common::text::printable_lines;
use leasehold_producer::{Producer, QueueName, QueueStatus};
use tokio::task::JoinHandle;

use crate::output::Output;
use crate::private_redis::{Confirmation, Reporter, StderrReporter};

/// How often the queue is asked for its counts.
const LOOK: Duration = Duration::from_millis(150);

/// Without a terminal a line of progress comes so often at most.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Where the narration goes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Show {
    output: Output,
    /// On a terminal.
    bar: Option<ProgressBar>,
}

/// Progress that is followed until this is dropped.
#[derive(Debug)]
pub(super) struct Following {
    task: JoinHandle<()>,
    bar: Option<ProgressBar>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Show {
    /// For this process's stderr.
    pub(super) fn new(output: Output) -> Self {
        let bar = (!output.is_quiet() && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("  [{bar:30}] {pos}/{len} tasks ended  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { output, bar }
    }

    /// One line of the narration.
    pub(super) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) if bar.length().is_some() && !bar.is_finished() => bar.println(printable_lines(text)),
            _ => self.output.note(text),
        }
    }

    /// Draws how far the queue is, until what is returned is dropped.
    pub(super) fn follow(&self, producer: Producer, queue: QueueName, tasks: usize) -> Following {
        let this = self.clone();
        if let Some(bar) = &this.bar {
            bar.set_length(tasks as u64);
        }
        let bar = self.bar.clone();
        let task = tokio::spawn(async move {
            let mut last = (tokio::time::Instant::now(), String::new());
            loop {
                // What cannot be asked now is asked again.
                if let Ok(Some(status)) = producer.queue_status(&queue).await {
                    this.draw(&status, tasks, &mut last);
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Following { task, bar }
    }

    fn draw(&self, status: &QueueStatus, tasks: usize, last: &mut (tokio::time::Instant, String)) {
        let ended: u64 =
            TaskState::ALL.iter().filter(|state| state.is_terminal()).map(|state| status.count(*state)).sum();
        let live: Vec<String> = TaskState::ALL
            .iter()
            .filter(|state| !state.is_terminal() && status.count(**state) > 0)
            .map(|state| format!("{} {state}", status.count(*state)))
            .collect();
        let live = live.join(", ");
        match &self.bar {
            Some(bar) => {
                bar.set_position(ended);
                bar.set_message(live);
            }
            None if last.0.elapsed() >= LINE_EVERY => {
                let line = format!("  {ended} of {tasks} tasks ended; {live}");
                if last.1 != line {
                    self.output.note(&line);
                }
                *last = (tokio::time::Instant::now(), line);
            }
            None => {}
        }
    }
}

impl Reporter for Show {
    fn say(&self, line: &str) {
        Self::say(self, line);
    }

    fn confirm(&self, question: &str) -> Confirmation {
        StderrReporter.confirm(question)
    }
}
