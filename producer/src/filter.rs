//! Many live tasks at once: which they are, and aborting them.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::{
    AbortAnswer, AbortRequest, Cursor, Lane, Owner, Page, Producer, QueueName, Records, TaskId, TaskName,
    TaskRecord, TaskState,
};

/// Tasks looked at, and aborted, at once.
const PAGE: usize = 100;
/// How often the whole is looked through for such as moved out of sight while it was read.
const ROUNDS: usize = 5;
/// The states that are looked through where no single one is named. What is being aborted was asked to end before.
const LIVE: [TaskState; 4] =
    [TaskState::Waiting, TaskState::Scheduled, TaskState::Queued, TaskState::Running];

/// Which live tasks of a queue: all that fit every field that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// Those of this owner.
    pub owner: Option<Owner>,
    /// Those that take their turn in this lane.
    pub lane: Option<Lane>,
    /// Those of this name. Names are in bodies: each candidate's is read.
    pub name: Option<TaskName>,
    /// Those in this state, which has to be a live one. Defaults to all live ones but `aborting`.
    pub state: Option<TaskState>,
    /// Those enqueued by this moment, ms by Redis's clock. Defaults to all; [`Producer::abort_where`] takes its own begin.
    pub enqueued_until_ms: Option<u64>,
}

impl TaskFilter {
    /// Checks it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state that is an end.
    pub fn validate(&self) -> Result<()> {
        match self.state {
            Some(state) if state.is_terminal() => {
                let live = "scheduled, waiting, queued, running, aborting";
                Err(Error::invalid("state", format!("{state} is an end; name one of {live}")))
            }
            _ => Ok(()),
        }
    }

    /// Does nothing but a moment narrow it?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { owner, lane, name, state, enqueued_until_ms: _ } = self;
        owner.is_none() && lane.is_none() && name.is_none() && state.is_none()
    }

    /// What the record alone can say; the name is in the body.
    fn fits(&self, record: &TaskRecord) -> bool {
        let state = self.state.map_or_else(|| LIVE.contains(&record.state), |wanted| record.state == wanted);
        state
            && self.owner.as_ref().is_none_or(|owner| record.owner.as_ref() == Some(owner))
            && self.lane.as_ref().is_none_or(|lane| record.lane.as_ref() == Some(lane))
            && self.enqueued_until_ms.is_none_or(|until| record.enqueued_ms <= until)
    }
}

/// How tasks are aborted, many at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbortOrder {
    /// Between TERM and KILL; none = each task's own stop grace.
    pub grace: Option<Duration>,
    /// Who asks, for people.
    pub by: String,
    /// Why, for people.
    pub reason: String,
    /// As [`AbortRequest::abandon`].
    pub abandon: bool,
}

/// What became of many aborts so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbortTally {
    /// Tasks found; more may follow until the end.
    pub found: u64,
    /// Ended at once.
    pub ended: u64,
    /// Asked to end: `aborting` until their runs have ended.
    pub requested: u64,
    /// Had ended meanwhile: nothing was changed.
    pub already: u64,
    /// Were removed meanwhile.
    pub not_found: u64,
    /// Cannot be read: nothing was changed. Among them are those that were listed where such tasks are looked for, and
    /// of which nobody can say whether they fit.
    pub corrupt: u64,
    /// Which those are.
    pub unreadable: Vec<TaskId>,
}

impl AbortTally {
    fn add(&mut self, id: &TaskId, answer: &AbortAnswer) {
        if *answer == AbortAnswer::Corrupt {
            self.unreadable.push(id.clone());
        }
        *match answer {
            AbortAnswer::Ended(_) => &mut self.ended,
            AbortAnswer::Requested { .. } => &mut self.requested,
            AbortAnswer::Already(_) => &mut self.already,
            AbortAnswer::NotFound => &mut self.not_found,
            AbortAnswer::Corrupt => &mut self.corrupt,
        } += 1;
    }

    /// Tasks that were answered for.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.ended + self.requested + self.already + self.not_found + self.corrupt
    }
}

/// One list to be looked through, from a place on.
#[derive(Debug)]
enum Source {
    State(TaskState, Option<Cursor>),
    Lane(usize),
    Owner(usize),
}

/// The tasks that fit a filter, page by page, each once. A list that changes meanwhile may hide one.
#[derive(Debug)]
pub struct Matches<'a> {
    producer: &'a Producer,
    queue: &'a QueueName,
    filter: &'a TaskFilter,
    sources: VecDeque<Source>,
    seen: HashSet<TaskId>,
}

impl Matches<'_> {
    /// The next page: up to 100 tasks, even none. No page after the last. What is listed where such tasks are looked for,
    /// and cannot be read, is told as that: nobody can say whether it fits.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn next_page(&mut self) -> Result<Option<Records>> {
        let Some(source) = self.sources.pop_front() else { return Ok(None) };
        let (producer, queue) = (self.producer, self.queue);
        let (page, rest) = match source {
            Source::State(state, cursor) => {
                let page = producer.list(queue, state, cursor.as_ref(), PAGE).await?;
                let Page { tasks, unreadable, next } = page;
                (Records { tasks, unreadable }, next.map(|next| Source::State(state, Some(next))))
            }
            Source::Lane(start) => match &self.filter.lane {
                None => (Records::default(), None),
                Some(lane) => match producer.lane_page(queue, lane, start, PAGE).await? {
                    None => (Records::default(), None),
                    Some(page) => (page, Some(Source::Lane(start + PAGE))),
                },
            },
            Source::Owner(start) => match &self.filter.owner {
                None => (Records::default(), None),
                Some(owner) => {
                    let page = producer.owned(queue, owner, start, PAGE).await?;
                    // Those that have ended lie behind all that live.
                    let more = page.ended.is_empty() && ((start + PAGE) as u64) < page.total;
                    (page.live, more.then_some(Source::Owner(start + PAGE)))
                }
            },
        };
        if let Some(rest) = rest {
            self.sources.push_front(rest);
        }
        let Records { mut tasks, mut unreadable } = page;
        tasks.retain(|record| self.filter.fits(record) && !self.seen.contains(&record.id));
        let tasks = self.named(tasks).await?;
        self.seen.extend(tasks.iter().map(|record| record.id.clone()));
        unreadable.retain(|id| self.seen.insert(id.clone()));
        Ok(Some(Records { tasks, unreadable }))
    }

    async fn named(&self, records: Vec<TaskRecord>) -> Result<Vec<TaskRecord>> {
        let Some(name) = &self.filter.name else { return Ok(records) };
        let bodies = self.producer.bodies(self.queue, &records).await?;
        let fits = records
            .into_iter()
            .zip(bodies)
            .filter(|(_, body)| body.as_ref().is_some_and(|b| b.name == *name));
        Ok(fits.map(|(record, _)| record).collect())
    }
}

impl Producer {
    /// The live tasks of a queue that fit a filter, page by page. Costs what it looks through: the lane's or owner's tasks
    /// where one is named, else those in the state, or all that live.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state that is an end.
    pub fn matches<'a>(&'a self, queue: &'a QueueName, filter: &'a TaskFilter) -> Result<Matches<'a>> {
        filter.validate()?;
        let states = filter.state.map_or_else(|| LIVE.to_vec(), |state| vec![state]);
        let sources: Vec<Source> = if filter.owner.is_some() {
            vec![Source::Owner(0)]
        } else if filter.lane.is_some() {
            // One that has not been due yet has no place in its lane.
            let scheduled = states.contains(&TaskState::Scheduled);
            let apart = scheduled.then_some(Source::State(TaskState::Scheduled, None));
            [Source::Lane(0)].into_iter().chain(apart).collect()
        } else {
            states.into_iter().map(|state| Source::State(state, None)).collect()
        };
        Ok(Matches { producer: self, queue, filter, sources: sources.into(), seen: HashSet::new() })
    }

    /// Aborts the live tasks of a queue that fit a filter and were enqueued before it began, in batches of 100: those that
    /// have not started first, so that none starts in the place of another. `told` hears how far it is after each batch.
    /// It looks again until it finds no more, so that a task which moved while it was read is not missed. One that cannot
    /// be read is left alone and counted, and never keeps it from the rest.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state that is an end; any error of Redis: earlier batches stand, and the same call again
    /// goes on.
    pub async fn abort_where(
        &self,
        queue: &QueueName,
        filter: &TaskFilter,
        order: &AbortOrder,
        mut told: impl FnMut(&AbortTally),
    ) -> Result<AbortTally> {
        let until = match filter.enqueued_until_ms {
            Some(until) => until,
            None => self.now_ms().await?,
        };
        let filter = TaskFilter { enqueued_until_ms: Some(until), ..filter.clone() };
        let mut tally = AbortTally::default();
        let mut asked = HashSet::new();
        for _ in 0..ROUNDS {
            let mut matches = self.matches(queue, &filter)?;
            matches.seen = asked;
            let mut found: Vec<(Option<usize>, TaskId)> = Vec::new();
            while let Some(page) = matches.next_page().await? {
                let place = |record: &TaskRecord| LIVE.iter().position(|state| *state == record.state);
                found.extend(page.tasks.into_iter().map(|record| (place(&record), record.id)));
                for id in &page.unreadable {
                    tally.found += 1;
                    tally.add(id, &AbortAnswer::Corrupt);
                }
            }
            asked = matches.seen;
            if found.is_empty() {
                break;
            }
            found.sort_by_key(|(place, _)| *place);
            tally.found += found.len() as u64;
            for batch in found.chunks(PAGE) {
                let requests: Vec<AbortRequest> = batch.iter().map(|(_, id)| order.request(id)).collect();
                let answers = self.abort_many(queue, &requests).await?;
                batch.iter().zip(&answers).for_each(|((_, id), answer)| tally.add(id, answer));
                told(&tally);
            }
        }
        Ok(tally)
    }
}

impl AbortOrder {
    /// The request for one task.
    #[must_use]
    pub fn request(&self, id: &TaskId) -> AbortRequest {
        let mut request = AbortRequest::new(id.clone(), self.by.as_str(), self.reason.as_str());
        (request.grace, request.abandon) = (self.grace, self.abandon);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_live_tasks_only() {
        let of = |state| TaskFilter { state, ..TaskFilter::default() };
        let error = of(Some(TaskState::Failed)).validate().unwrap_err().to_string();
        assert!(error.starts_with("invalid state: failed is an end; name one of scheduled"), "{error}");
        assert!(of(Some(TaskState::Aborting)).validate().is_ok() && of(None).is_empty());
        let mut record = TaskRecord::sample(TaskId::new("a").unwrap(), TaskState::Queued);
        assert!(of(None).fits(&record) && !of(Some(TaskState::Running)).fits(&record));
        let until = TaskFilter { enqueued_until_ms: Some(5), ..TaskFilter::default() };
        record.enqueued_ms = 5;
        assert!(until.fits(&record) && until.is_empty());
        record.enqueued_ms = 6;
        assert!(!until.fits(&record));
        let owned = TaskFilter { owner: Some(Owner::new("me").unwrap()), ..TaskFilter::default() };
        assert!(!owned.fits(&record));
        record.state = TaskState::Aborting;
        assert!(!of(None).fits(&record) && of(Some(TaskState::Aborting)).fits(&record));
    }
}
