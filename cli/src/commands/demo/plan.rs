//! What is enqueued, and how each task is to end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use leasehold_common::body::ExecPayload;
use leasehold_common::policy::{Policy, Priority};
use leasehold_common::state::TaskState;
use leasehold_common::task::Spec;
use leasehold_producer::{Enqueue, Producer, RawOutput, TaskId};

use super::files::Found;
use super::job::{Checksum, QUEUE, Sums};
use super::role::SLOTS;
use crate::error::Result;

/// Workers of the demo.
pub(super) const WORKERS: usize = 3;

/// The files together take about so long, whatever their number: enough to watch, and to kill in the middle of.
const FILES_TAKE: Duration = Duration::from_secs(6);
/// No file takes longer for that reason,
const LONGEST_PACE: Duration = Duration::from_millis(250);
/// but for those that are in hand when the worker is killed: longer than it takes to fill all slots.
const SLOW_PACE: Duration = Duration::from_millis(3500);

/// How long the slow ones may take to fill all slots: less than they last.
pub(super) const SLOW_FILL: Duration = Duration::from_millis(2500);

/// Files whose size a command counts, too.
const COUNTED: usize = 6;

/// First attempts that only end from outside, and the next ones that end by themselves.
const SECOND_TIME_LUCKY: &str = "if [ \"$LEASEHOLD_ATTEMPT\" = 1 ]; then sleep 600 & echo \"pids $$ $!\"; wait; \
     fi; echo \"attempt $LEASEHOLD_ATTEMPT ends well\"";

/// One file's task.
#[derive(Debug, Clone)]
pub(super) struct FileTask {
    /// `file-0001` and so on.
    pub(super) id: String,
    /// The file.
    pub(super) file: Found,
    /// What the handler gets.
    pub(super) job: Checksum,
    /// Enqueued in the middle, to be in hand when the worker is killed.
    pub(super) slow: bool,
}

/// One command's task.
#[derive(Debug, Clone)]
pub(super) struct CommandTask {
    /// What it is about, in one word.
    pub(super) id: String,
    /// For `sh -c`.
    script: &'static str,
    /// Its arguments.
    arguments: Vec<String>,
    /// The state it is to end in.
    pub(super) expected: TaskState,
    /// What it prints, where that is known.
    pub(super) prints: Option<String>,
    policy: Policy,
}

/// All tasks.
#[derive(Debug)]
pub(super) struct Plan {
    /// One per file.
    pub(super) files: Vec<FileTask>,
    /// `wc -c` of some files.
    pub(super) counted: Vec<CommandTask>,
    /// Ends with code 3.
    pub(super) fails: CommandTask,
    /// Loses its worker.
    pub(super) crash: CommandTask,
    /// Is aborted, and ignores TERM.
    pub(super) abort: CommandTask,
    /// Takes too long.
    pub(super) timeout: CommandTask,
    /// Is handed back by a stopping worker.
    pub(super) drain: CommandTask,
}

impl Plan {
    /// A plan for these files, of which there is at least one.
    pub(super) fn new(files: Vec<Found>) -> Self {
        let counted = files.iter().filter_map(counted).take(COUNTED).collect();
        let policy = |run_timeout, stop_grace| Policy {
            run_timeout: Some(Duration::from_millis(run_timeout)),
            stop_grace: Duration::from_millis(stop_grace),
            ..Policy::command()
        };
        let command = |id: &str, script, expected, policy| CommandTask {
            id: id.to_owned(),
            script,
            arguments: Vec::new(),
            expected,
            prints: None,
            policy,
        };
        let (completed, long) = (TaskState::Completed, policy(120_000, 1000));
        Self {
            files: file_tasks(files),
            counted,
            fails: command("failure", "echo 'no such luck' >&2; exit 3", TaskState::Failed, long),
            crash: command("crash", SECOND_TIME_LUCKY, completed, long),
            abort: command(
                "abort",
                "trap '' TERM; sleep 600 & echo \"pids $$ $!\"; wait; sleep 600",
                TaskState::Aborted,
                long,
            ),
            timeout: command(
                "run_timeout",
                "sleep 600 & echo \"pids $$ $!\"; wait",
                TaskState::TimedOut,
                policy(1500, 1000),
            ),
            drain: command("drain", SECOND_TIME_LUCKY, completed, long),
        }
    }

    /// Every command, in the order of the summary.
    pub(super) fn commands(&self) -> impl Iterator<Item = &CommandTask> {
        let shown = [&self.fails, &self.crash, &self.abort, &self.timeout, &self.drain];
        self.counted.iter().chain(shown)
    }

    /// How many tasks there are in all.
    pub(super) fn len(&self) -> usize {
        self.files.len() + self.commands().count()
    }

    /// The file whose first try fails.
    pub(super) fn flaky(&self) -> Option<&FileTask> {
        self.files.iter().find(|task| task.job.fails_once)
    }
}

impl FileTask {
    /// Ready to be enqueued.
    pub(super) fn enqueue(&self, producer: &Producer) -> Enqueue<Sums> {
        let priority = if self.slow { Priority::Urgent } else { Priority::Normal };
        producer.enqueue(self.job.clone()).id(self.id.as_str()).priority(priority)
    }
}

impl CommandTask {
    /// Its id.
    pub(super) fn id(&self) -> Result<TaskId> {
        Ok(TaskId::new(self.id.as_str())?)
    }

    /// The command.
    pub(super) fn argv(&self) -> Vec<String> {
        let shell = ["sh", "-c", self.script, "sh"].map(str::to_owned);
        shell.into_iter().chain(self.arguments.iter().cloned()).collect()
    }

    /// Ready to be enqueued.
    pub(super) fn enqueue(&self, producer: &Producer) -> Enqueue<RawOutput> {
        let payload = ExecPayload { argv: self.argv(), ..ExecPayload::default() };
        let spec = Spec { policy: self.policy, priority: Priority::Urgent, ..Spec::default() };
        producer.exec(QUEUE, payload).id(self.id.as_str()).spec(spec)
    }
}

/// Most files are paced by their number; one in three, and no more than fill all slots beside the command that
/// loses its worker, are slow; the first of the others fails once.
fn file_tasks(files: Vec<Found>) -> Vec<FileTask> {
    let number = files.len();
    let slow = (WORKERS * SLOTS - 1).min(number / 3);
    let every = number.checked_div(slow).unwrap_or(usize::MAX);
    let at_once = u32::try_from(WORKERS * SLOTS).unwrap_or(u32::MAX);
    let pace = (FILES_TAKE * at_once / u32::try_from(number.max(1)).unwrap_or(u32::MAX)).min(LONGEST_PACE);
    let task = |(at, file): (usize, Found)| {
        let slow = at % every == every - 1 && at / every < slow;
        let pace = if slow { SLOW_PACE } else { pace };
        FileTask {
            id: format!("file-{:04}", at + 1),
            job: Checksum {
                path: file.path.clone().into_os_string(),
                pace_ms: u64::try_from(pace.as_millis()).unwrap_or_default(),
                fails_once: at == 0,
            },
            file,
            slow,
        }
    };
    files.into_iter().enumerate().map(task).collect()
}

/// A command that counts a file's bytes. Commands are text, so that files of other names have none.
fn counted(file: &Found) -> Option<CommandTask> {
    let path = file.path.to_str()?;
    Some(CommandTask {
        id: format!("wc-{}", super::job::hex(&short_hash(file.name.as_os_str()))),
        script: "wc -c < \"$1\" | tr -d ' '",
        arguments: vec![path.to_owned()],
        expected: TaskState::Completed,
        prints: Some(file.bytes.to_string()),
        policy: Policy { run_timeout: Some(Duration::from_secs(120)), ..Policy::command() },
    })
}

fn short_hash(name: &OsStr) -> [u8; 8] {
    use sha2::Digest as _;
    let mut short = [0; 8];
    short.copy_from_slice(&sha2::Sha256::digest(name.as_bytes())[..8]);
    short
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn found(number: usize) -> Vec<Found> {
        let file = |n| Found {
            path: format!("/d/{n}").into(),
            name: format!("{n}").into(),
            bytes: 1,
            modified: None,
        };
        (0..number).map(file).collect()
    }

    #[test]
    fn ids_are_unique_and_one_file_fails_once_whatever_the_number() {
        for number in [1, 2, 3, 8, 11, 33, 34, 270, 2000] {
            let plan = Plan::new(found(number));
            let ids: HashSet<&str> = plan
                .files
                .iter()
                .map(|f| f.id.as_str())
                .chain(plan.commands().map(|c| c.id.as_str()))
                .collect();
            assert_eq!(ids.len(), plan.len());
            assert_eq!(plan.files.len(), number);
            let slow = plan.files.iter().filter(|f| f.slow).count();
            assert_eq!(slow, (number / 3).min(11), "{number}");
            let flaky: Vec<_> = plan.files.iter().filter(|f| f.job.fails_once).collect();
            assert!(flaky.len() == 1 && !flaky[0].slow, "{number}");
            assert!(plan.files.iter().all(|f| f.job.pace_ms <= 3500));
        }
    }

    #[test]
    fn files_of_names_that_are_not_text_have_no_command() {
        use std::os::unix::ffi::OsStringExt as _;
        let name = std::ffi::OsString::from_vec(vec![b'/', 0xff]);
        let file = Found { path: name.clone().into(), name: name.into(), bytes: 1, modified: None };
        assert!(Plan::new(vec![file]).counted.is_empty());
    }
}
