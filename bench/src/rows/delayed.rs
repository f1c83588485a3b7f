//! How late delayed tasks start: the handler's first line against the due time, both by Redis's clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Found;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::ours::{Counter, patience};
use crate::plan::Row;
use crate::spread::{Spread, quantile, sorted};

/// Tasks that are enqueued beforehand, to see how long all of them will take.
const TRIAL: usize = 2000;
/// Between the last enqueue, as foreseen, and the first due time.
const AHEAD: Duration = Duration::from_secs(2);

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let (tasks, over) = lab.plan.scale.delayed;
    let ours = lab.ours("delayed").await?;
    let clock = lab.server.clock().await?;
    lab.say(&format!("delayed: enqueueing {tasks} tasks"));
    let trial = Instant::now();
    ours.fill_delayed(&due_times(clock.now_us() + 3_600_000_000, TRIAL.min(tasks), over)).await?;
    let each = trial.elapsed().as_secs_f64() / TRIAL.min(tasks) as f64;
    lab.wipe().await?;

    let ours_again = lab.ours("delayed").await?;
    let lead = Duration::from_secs_f64(each * tasks as f64 * 1.5) + AHEAD;
    let first_us = clock.now_us() + i64::try_from(lead.as_micros()).unwrap_or_default();
    let late = Arc::new(Mutex::new(Vec::with_capacity(tasks)));
    let counter = Counter::of(tasks);
    let (noted, counted) = (Arc::clone(&late), Arc::clone(&counter));
    let worker = ours_again
        .worker(lab.plan.slots, move |job| {
            let due_us = i64::try_from(job.mark()).unwrap_or_default() * 1000;
            let late_ms = (clock.now_us() - due_us) as f64 / 1000.0;
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(late_ms);
            counted.count();
            std::future::ready(())
        })
        .await?;
    ours_again.fill_delayed(&due_times(first_us, tasks, over)).await?;
    let in_time = clock.now_us() < first_us;
    let mut working = ours_again.start(worker);
    lab.say(&format!("delayed: {tasks} tasks become due over {} s", over.as_secs()));
    working.until("the last delayed task", lead + over + patience(tasks), counter.reached()).await?;
    let drift = lab.server.clock().await?.now_us() - clock.now_us();
    working.stop().await?;
    lab.tidy("delayed tasks ran").await?;
    if !in_time {
        lab.warn("delayed: tasks were due before all were enqueued; the first ones count as late for that");
    }
    if drift.unsigned_abs() > 1000 {
        lab.warn(format!("delayed: the clocks of Redis and of this process moved apart by {drift} us"));
    }
    let late = sorted(std::mem::take(&mut *late.lock().unwrap_or_else(PoisonError::into_inner)));
    Ok(tell(tasks, over, &late))
}

/// So many due times, evenly over a time, ms since 1970.
fn due_times(first_us: i64, tasks: usize, over: Duration) -> Vec<u64> {
    let step_us = over.as_micros() as f64 / tasks as f64;
    (0..tasks).map(|n| ((first_us as f64 + n as f64 * step_us) / 1000.0) as u64).collect()
}

fn tell(tasks: usize, over: Duration, late: &[f64]) -> Found {
    let mut found = Found::default();
    found.figures.push(Figure::new(
        Row::Delayed,
        "delayed-p99",
        format!("{tasks} delayed tasks, due evenly over {} s, idle worker: lateness p99", over.as_secs()),
        Unit::Ms,
        Spread::only(quantile(late, 0.99)),
        Goal::AtMost(20.0, Some(5.0)),
    ));
    for (title, q) in [("lateness, p50", 0.5), ("lateness, p99.9", 0.999), ("lateness, longest", 1.0)] {
        found.details.push(Detail::ours(Row::Delayed, title, Unit::Ms, quantile(late, q)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::due_times;

    #[test]
    fn due_times_are_even() {
        assert_eq!(due_times(1_000_000, 4, Duration::from_millis(8)), [1000, 1002, 1004, 1006]);
    }
}
