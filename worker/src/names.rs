//! How a worker comes by its name: no two that live share one, and one whose worker is dead is taken over.

use std::time::Duration;

use leasehold_common::name::{Incarnation, WorkerName};
use leasehold_common::store::{ProcessMark, Store, WorkerInfo};

use crate::config::default_name;
use crate::error::Error;
use crate::mark::is_dead;

/// Until its entry is there, a name is held so long: who dies in between keeps nobody from it.
const FIRST_TTL: Duration = Duration::from_secs(2);
/// A holder without an entry is starting or ending just now, or has died there: so often a look is repeated, until that
/// time is over.
const TRIES: usize = 60;
/// Between two looks at such a holder.
const PAUSE: Duration = Duration::from_millis(50);
/// Workers of one host that nobody has named.
const MOST_UNNAMED: usize = 1000;

/// A name that is this worker's now.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) name: WorkerName,
    /// Earlier incarnations of the name, proved dead: their runs may be reclaimed at once.
    pub(crate) dead: Vec<WorkerInfo>,
}

/// Who takes names.
#[derive(Debug)]
pub(crate) struct Taker<'a> {
    pub(crate) store: &'a Store,
    pub(crate) incarnation: &'a Incarnation,
    pub(crate) mark: &'a ProcessMark,
}

/// What a look at one name found.
enum Found {
    Ours(Vec<WorkerInfo>),
    /// Held by a worker that lives, or may live; none when its entry is not there.
    Held(Option<Box<WorkerInfo>>),
}

impl Taker<'_> {
    /// Takes the name that somebody has chosen, or the first of the host's that is free.
    pub(crate) async fn take(&self, chosen: Option<&WorkerName>) -> Result<Taken, Error> {
        let Some(name) = chosen else { return self.take_unnamed(&default_name()).await };
        match self.look(name).await? {
            Found::Ours(dead) => Ok(Taken { name: name.clone(), dead }),
            Found::Held(by) => Err(Error::NameTaken { name: name.clone(), by }),
        }
    }

    /// Nobody has chosen a name. That of a dead one comes first: its runs wait for who takes its place.
    async fn take_unnamed(&self, base: &WorkerName) -> Result<Taken, Error> {
        let entries = self.store.workers().await?;
        let mut dead: Vec<usize> = entries
            .iter()
            .filter(|entry| is_dead(self.mark, entry))
            .filter_map(|entry| number_of(base, &entry.name))
            .collect();
        dead.sort_unstable();
        let mut held = None;
        for number in dead.into_iter().chain(1..=MOST_UNNAMED) {
            let name = numbered(base, number)?;
            match self.look(&name).await? {
                Found::Ours(dead) => return Ok(Taken { name, dead }),
                Found::Held(by) => held = by,
            }
        }
        Err(Error::NameTaken { name: base.clone(), by: held })
    }

    /// Takes one name, if it is free or its holder dead.
    async fn look(&self, name: &WorkerName) -> Result<Found, Error> {
        for _ in 0..TRIES {
            let Some(holder) = self.store.take_name(name, self.incarnation, FIRST_TTL).await? else {
                return self.look_at_entries(name).await;
            };
            match self.store.worker(&holder).await? {
                Some(entry) if is_dead(self.mark, &entry) => {
                    if self.store.take_over_name(name, &holder, self.incarnation, FIRST_TTL).await? {
                        return self.look_at_entries(name).await;
                    }
                }
                Some(entry) => return Ok(Found::Held(Some(Box::new(entry)))),
                None => tokio::time::sleep(PAUSE).await,
            }
        }
        Ok(Found::Held(None))
    }

    /// The name is held: who else has an entry under it? One may live although it does not hold its name, when Redis was
    /// away for longer than that key lasts.
    async fn look_at_entries(&self, name: &WorkerName) -> Result<Found, Error> {
        let mut dead = Vec::new();
        for entry in self.store.workers().await? {
            if entry.name != *name || entry.incarnation == *self.incarnation {
                continue;
            }
            if is_dead(self.mark, &entry) {
                dead.push(entry);
            } else {
                self.store.free_name(name, self.incarnation).await?;
                return Ok(Found::Held(Some(Box::new(entry))));
            }
        }
        Ok(Found::Ours(dead))
    }
}

/// `host`, `host-2`, `host-3` ..
fn numbered(base: &WorkerName, number: usize) -> Result<WorkerName, Error> {
    if number == 1 { Ok(base.clone()) } else { Ok(WorkerName::new(format!("{base}-{number}"))?) }
}

/// Which of them a name is.
fn number_of(base: &WorkerName, name: &WorkerName) -> Option<usize> {
    let rest = name.as_str().strip_prefix(base.as_str())?;
    if rest.is_empty() {
        return Some(1);
    }
    let number = rest.strip_prefix('-')?.parse().ok()?;
    (2..=MOST_UNNAMED).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{number_of, numbered};
    use leasehold_common::name::WorkerName;

    #[test]
    fn unnamed_workers_of_a_host_are_numbered_from_two_on() {
        let base = WorkerName::new("host").unwrap();
        for number in [1, 2, 17, 1000] {
            assert_eq!(number_of(&base, &numbered(&base, number).unwrap()), Some(number));
        }
        for other in ["hos", "host-", "host-1", "host-0", "host-x", "host2", "host-1001", "host-2-2"] {
            assert_eq!(number_of(&base, &WorkerName::new(other).unwrap()), None, "{other}");
        }
    }
}
