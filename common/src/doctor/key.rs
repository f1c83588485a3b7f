//! Which key is which: every key of the namespace is of a kind that [`crate::keys`] lists, or a finding.

use crate::keys::{
    BEAT_KIND, CLAIM_KIND, DONE_KIND, HASH_DIGITS, KeyKind, LEVELS, NAME_KIND, QUEUE_KINDS, QUEUES_KIND,
    READY_KIND, TASK_KINDS, TEXT_KINDS, WORKER_KIND, WORKERS_KIND,
};
use crate::name::{Incarnation, Namespace, QueueName, TaskId, WorkerName};
use crate::state::TaskState;

/// A key of a known kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// As Redis has it.
    pub(super) name: String,
    pub(super) kind: KeyKind,
    pub(super) queue: Option<QueueName>,
    /// The task it belongs to.
    pub(super) task: Option<TaskId>,
}

impl Key {
    /// Reads a key of `namespace`; none if it is of no known kind.
    pub(super) fn read(namespace: &Namespace, name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        let rest = name.strip_prefix(namespace.as_str())?.strip_prefix(':')?;
        let made = |kind, queue, task| Some(Self { name: name.to_owned(), kind, queue, task });
        let Some(tagged) = rest.strip_prefix('{') else { return made(registry(rest)?, None, None) };
        let (queue, suffix) = tagged.split_once("}:")?;
        let queue = QueueName::new(queue).ok()?;
        if let Some(kind) = QUEUE_KINDS.iter().find(|k| k.part == suffix) {
            return made(*kind, Some(queue), None);
        }
        let (part, tail) = suffix.split_once(':')?;
        if let Some(kind) = TASK_KINDS.iter().find(|k| k.part == part) {
            return made(*kind, Some(queue), Some(TaskId::new(tail).ok()?));
        }
        let hashed = tail.len() == HASH_DIGITS && tail.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(kind) = TEXT_KINDS.iter().find(|k| k.part == part && hashed) {
            return made(*kind, Some(queue), None);
        }
        let known = match part {
            "ready" => LEVELS.contains(&tail).then_some(READY_KIND),
            "done" => tail.parse().is_ok_and(TaskState::is_terminal).then_some(DONE_KIND),
            "claim" => Incarnation::new(tail).is_ok().then_some(CLAIM_KIND),
            "beat" => Incarnation::new(tail).is_ok().then_some(BEAT_KIND),
            _ => None,
        };
        made(known?, Some(queue), None)
    }
}

fn registry(rest: &str) -> Option<KeyKind> {
    match rest.split_once(':') {
        None => [QUEUES_KIND, WORKERS_KIND].into_iter().find(|k| k.part == rest),
        Some(("worker", tail)) => Incarnation::new(tail).is_ok().then_some(WORKER_KIND),
        Some(("name", tail)) => WorkerName::new(tail).is_ok().then_some(NAME_KIND),
        Some(_) => None,
    }
}

/// The queue whose hash tag a key carries, known kind or not.
pub(super) fn queue_of(namespace: &Namespace, name: &[u8]) -> Option<QueueName> {
    let rest = std::str::from_utf8(name).ok()?.strip_prefix(namespace.as_str())?.strip_prefix(":{")?;
    QueueName::new(rest.split_once('}')?.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{self, QueueKeys, queues, worker, workers};
    use crate::name::{Lane, Owner};

    #[test]
    fn every_key_that_is_built_is_known() {
        let (ns, queue) = (Namespace::default(), QueueName::new("a.b-c").unwrap());
        let (id, inc) = (TaskId::new("x:{y} z").unwrap(), Incarnation::fresh());
        let k = QueueKeys::new(&ns, &queue);
        let mut of_queue = vec![
            k.config(),
            k.running(),
            k.scheduled(),
            k.waiting(),
            k.deadlines(),
            k.lanes(),
            k.lane(&Lane::new("a").unwrap()),
            k.lane_ends(&Lane::new("a").unwrap()),
            k.owner(&Owner::new("a").unwrap()),
            k.gone(),
            k.events(),
            k.wake(),
            k.pulse(),
            k.totals(),
            k.waited(),
            k.claim(&inc),
            k.beat(&inc),
        ];
        of_queue.extend(LEVELS.map(|level| k.ready(level)));
        of_queue.extend(TaskState::ALL.into_iter().filter(|s| s.is_terminal()).map(|s| k.done(s)));
        for name in of_queue {
            let key = Key::read(&ns, name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((key.queue.as_ref(), key.task), (Some(&queue), None), "{name}");
        }
        for name in [
            k.task(&id),
            k.body(&id),
            k.lease(&id),
            k.result(&id),
            k.errors(&id),
            k.log(&id),
            k.note(&id),
            k.phases(&id),
            k.checkpoint(&id),
            k.waiter(&id),
        ] {
            let key = Key::read(&ns, name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((key.queue.as_ref(), key.task.as_ref()), (Some(&queue), Some(&id)), "{name}");
        }
        let held = keys::name(&ns, &WorkerName::new("web-1").unwrap());
        for name in [queues(&ns), workers(&ns), worker(&ns, &inc), held] {
            assert_eq!(Key::read(&ns, name.as_bytes()).unwrap().queue, None, "{name}");
        }
    }

    #[test]
    fn others_are_not() {
        let ns = Namespace::default();
        for name in [
            "lh:junk",
            "lh:{q}:junk",
            "lh:{q}:never",
            "lh:{q}:ready:middle",
            "lh:{q}:done:running",
            "lh:{q}:lane:short",
            "lh:{q}:task:",
            "lh:{q}x:task:a",
            "lh:{a b}:config",
            "lh:worker:",
            "lh:name:a b",
            "lhx:queues",
            "lh:{q",
        ] {
            assert_eq!(Key::read(&ns, name.as_bytes()), None, "{name}");
        }
        assert_eq!(Key::read(&ns, b"lh:{q}:task:\xff"), None);
    }
}
