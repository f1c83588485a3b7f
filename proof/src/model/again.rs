//! What people and time do to tasks that have ended: again, or away. Who acts names the end that he saw by its `rev`.

use leasehold_common::bounds::Deadline;
use leasehold_common::store::{DeleteAnswer, RetryAnswer, RetryMode};

use super::Model;
use super::rules::ms;
use crate::words::TaskNo;

impl Model {
    /// A person runs an ended task again: failures and reclaims start anew, the attempt goes on. The `rev` that was
    /// retried last gets its answer again.
    pub(super) fn retry(&mut self, no: TaskNo, rev: u64, mode: RetryMode) -> RetryAnswer {
        let Some(task) = self.tasks.get(&no) else { return RetryAnswer::NotFound };
        if task.retried == Some(rev) {
            return RetryAnswer::Retried(task.state);
        }
        if !task.state.is_terminal() {
            return RetryAnswer::Live(task.state);
        }
        if task.rev != rev {
            return RetryAnswer::Changed(task.state);
        }
        if mode == RetryMode::Resume && !task.checkpoint {
            return RetryAnswer::NoCheckpoint(task.state);
        }
        self.forget_end(no, mode);
        let level = self.rules.level(no);
        self.make_ready(no, level);
        RetryAnswer::Retried(self.task(no).state)
    }

    fn forget_end(&mut self, no: TaskNo, mode: RetryMode) {
        let now = self.now;
        let said = self.rules.body(no).bounds.deadline;
        let task = self.task_mut(no);
        task.retried = Some(task.rev);
        let request = task.stop.as_ref().and_then(|stop| stop.request);
        task.aborted_before = request.map(|request| (request, task.state)).or(task.aborted_before);
        task.failures = 0;
        task.reclaims = 0;
        task.spent = 0;
        task.failure = None;
        task.stop = None;
        task.unknown_since = None;
        task.checkpoint &= mode != RetryMode::Fresh;
        // One told from the enqueue on begins anew; one that has passed is lifted: who retries knows the time.
        if let Some(Deadline::After(after)) = said {
            task.deadline = Some(now + ms(after));
        }
        task.deadline = task.deadline.filter(|deadline| *deadline > now);
    }

    /// A person removes an ended task.
    pub(super) fn delete(&mut self, no: TaskNo, rev: u64) -> DeleteAnswer {
        let Some(task) = self.tasks.get(&no) else {
            return if self.is_gone(no) { DeleteAnswer::Deleted } else { DeleteAnswer::NotFound };
        };
        if !task.state.is_terminal() {
            return DeleteAnswer::Live(task.state);
        }
        if task.rev != rev {
            return DeleteAnswer::Changed(task.state);
        }
        self.remove(no, self.now);
        DeleteAnswer::Deleted
    }

    /// Removes what is older than the queue keeps it. Returns how many went.
    pub(super) fn clean_up(&mut self) -> u64 {
        let (now, rules) = (self.now, self.rules.clone());
        let old: Vec<(TaskNo, u64)> = self
            .tasks
            .iter()
            .filter_map(|(no, task)| Some((*no, task.ended?, rules.retention(task.state))))
            .filter(|(_, ended, kept)| now - ended > *kept)
            .map(|(no, ended, _)| (no, ended))
            .collect();
        for (no, ended) in &old {
            self.remove(*no, *ended);
        }
        old.len() as u64
    }
}
