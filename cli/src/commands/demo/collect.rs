//! What became of each task, and whether its result is that of its file.

use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use leasehold_common::state::TaskState;
use leasehold_common::task::Task;
use leasehold_producer::json::{Bytes, from_msgpack};
use leasehold_producer::{EXEC_NAME, Failure, FailureKind, TaskDetail, TaskId};

use super::acts::Scene;
use super::files::Found;
use super::job::{self, Checksum, FAILS_ONCE, Sums};
use super::plan::{CommandTask, FileTask, Plan};
use super::summary::{FailureRow, Scenario, TaskRow};
use crate::error::{self, Result};

/// Tasks read at the same time.
const AT_ONCE: usize = 16;

/// Every task of the plan as it is now; results are compared with the files as they are now.
pub(super) async fn rows(scene: &Scene, plan: &Plan) -> Result<Vec<TaskRow>> {
    let files = stream::iter(&plan.files).map(|task| file_row(scene, task)).buffered(AT_ONCE);
    let mut rows: Vec<TaskRow> = files.try_collect().await?;
    for (row, task) in rows.iter_mut().zip(&plan.files) {
        row.verified = verify_file(&task.file, row.sums()).await?;
        row.file_changed = task.file.has_changed();
    }
    let commands: Vec<&CommandTask> = plan.commands().collect();
    let commands = stream::iter(commands).map(|task| command_row(scene, task)).buffered(AT_ONCE);
    rows.extend(commands.try_collect::<Vec<TaskRow>>().await?);
    Ok(rows)
}

async fn file_row(scene: &Scene, task: &FileTask) -> Result<TaskRow> {
    let detail = scene.producer.detail(&scene.queue, &TaskId::new(task.id.as_str())?).await?;
    let name = &task.file.name;
    Ok(TaskRow {
        file: Some(name.to_string_lossy().into_owned()),
        file_hex: name.to_str().is_none().then(|| job::hex(name.as_os_str().as_encoded_bytes())),
        ..row(&task.id, Checksum::NAME, TaskState::Completed, detail.as_ref())
    })
}

async fn command_row(scene: &Scene, task: &CommandTask) -> Result<TaskRow> {
    let id = task.id()?;
    let detail = scene.producer.detail(&scene.queue, &id).await?;
    let mut verified = None;
    if let Some(expected) = &task.prints {
        let log = scene.producer.log(&scene.queue, &id, None, 16).await?;
        let text: Vec<u8> = log.into_iter().flat_map(|piece| piece.text).collect();
        verified = Some(String::from_utf8_lossy(&text).trim() == expected);
    }
    Ok(TaskRow {
        command: Some(task.argv()),
        verified,
        ..row(&task.id, EXEC_NAME, task.expected, detail.as_ref())
    })
}

fn row(id: &str, name: &str, expected: TaskState, detail: Option<&TaskDetail>) -> TaskRow {
    let record = detail.map(|detail| &detail.record);
    let output = detail.and_then(|detail| detail.output.as_deref());
    let failures = detail.map_or(&[][..], |detail| &detail.failures);
    let history: Vec<FailureRow> = failures.iter().map(failure_row).collect();
    TaskRow {
        id: id.to_owned(),
        name: name.to_owned(),
        expected,
        state: record.map(|record| record.state),
        attempt: record.map_or(0, |record| record.attempt),
        failures: record.map_or(0, |record| record.failures),
        reclaims: record.map_or(0, |record| record.reclaims),
        worker: record.and_then(|record| record.worker.as_ref()).map(ToString::to_string),
        file: None,
        file_hex: None,
        command: None,
        result: output.and_then(|output| from_msgpack(output, Bytes::Tagged).ok()),
        verified: None,
        file_changed: false,
        failure: history.last().cloned(),
        history,
    }
}

fn failure_row(failure: &Failure) -> FailureRow {
    FailureRow {
        kind: failure.kind,
        message: failure.message.clone(),
        attempt: failure.attempt,
        exit_code: failure.detail.exit_code,
        signal: failure.detail.signal,
    }
}

/// Whether these are the sums of the file as it is now; none without sums.
async fn verify_file(file: &Found, sums: Option<Sums>) -> Result<Option<bool>> {
    let Some(sums) = sums else { return Ok(None) };
    let path = file.path.clone();
    let reading = tokio::task::spawn_blocking(move || Some(is_of(&path, &sums)));
    reading.await.map_err(|error| error::Failure::failed(format!("a file could not be read again: {error}")))
}

/// A file that cannot be read any more is not the one that the sums are of.
fn is_of(path: &Path, sums: &Sums) -> bool {
    job::sums(path, |_, _| Ok(())).is_ok_and(|now| now == *sums)
}

/// The scenarios that the rows alone tell of.
pub(super) fn scenarios(plan: &Plan, rows: &[TaskRow]) -> [Scenario; 2] {
    let of = |id: &str| rows.iter().find(|row| row.id == id);
    let told = |row: Option<&TaskRow>| {
        row.map_or_else(
            || "there is no such task".to_owned(),
            |row| {
                let state = row.state.map_or("missing", TaskState::as_str);
                let history = row.history.iter().map(|f| format!("; attempt {}: {}", f.attempt, f.message));
                format!(
                    "task {} is {state} (attempts: {}, failures: {}{})",
                    row.id,
                    row.attempt,
                    row.failures,
                    history.collect::<String>()
                )
            },
        )
    };
    let flaky = plan.flaky().and_then(|task| of(&task.id));
    let retried = flaky.is_some_and(|row| {
        row.state == Some(TaskState::Completed)
            && row.attempt >= 2
            && row.failures == 1
            && row.history.iter().any(|failure| failure.message == FAILS_ONCE)
    });
    let fails = of(&plan.fails.id);
    let failed = fails.is_some_and(|row| {
        let failure = row.failure.as_ref();
        row.state == Some(TaskState::Failed)
            && failure.is_some_and(|f| f.kind == FailureKind::ExitCode && f.exit_code == Some(3))
    });
    [
        Scenario {
            name: "retry",
            expected: "a handler that returns an error is tried again after its backoff, and completes"
                .to_owned(),
            happened: told(flaky),
            ok: retried,
        },
        Scenario {
            name: "failure",
            expected: "a command that exits with 3 and has no attempt left is failed, its code kept"
                .to_owned(),
            happened: told(fails),
            ok: failed,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_that_of_its_file_until_the_file_changes_or_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let sums = job::sums(&path, |_, _| Ok(())).unwrap();
        assert!(is_of(&path, &sums));
        std::fs::write(&path, "abd").unwrap();
        assert!(!is_of(&path, &sums), "changed");
        std::fs::write(&path, "abc").unwrap();
        let forged = Sums { gzip_sha256: "0".repeat(64), ..sums.clone() };
        assert!(is_of(&path, &sums) && !is_of(&path, &forged), "the compressed form counts, too");
        std::fs::remove_file(&path).unwrap();
        assert!(!is_of(&path, &sums), "gone");
    }
}
