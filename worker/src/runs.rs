//! All runs in hand, shared by the loops of a worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::guard::BootInstant;
use crate::run::{Run, RunKey};

/// How long a stop for a run that is not known yet is kept: its claim's answer may be on the way.
const EARLY_STOP_KEPT: Duration = Duration::from_secs(2);

/// All runs in hand, ended ones included until their finish is answered.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    runs: HashMap<RunKey, Arc<Run>>,
    early_stops: Vec<(RunKey, BootInstant)>,
}

impl Runs {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a run in hand. True when a stop for it came before it was known: beat at once.
    pub(crate) fn insert(&self, run: &Arc<Run>) -> bool {
        let mut table = self.table();
        table.runs.insert(run.key.clone(), Arc::clone(run));
        let before = table.early_stops.len();
        table.early_stops.retain(|(key, _)| *key != run.key);
        table.early_stops.len() < before
    }

    /// Lets go of a run.
    pub(crate) fn remove(&self, key: &RunKey) {
        self.table().runs.remove(key);
    }

    /// Is the run in hand?
    pub(crate) fn contains(&self, key: &RunKey) -> bool {
        self.table().runs.contains_key(key)
    }

    /// A stop was published for a run. True when the run is in hand: beat at once.
    pub(crate) fn note_stop(&self, key: RunKey) -> bool {
        let mut table = self.table();
        if table.runs.contains_key(&key) {
            return true;
        }
        let now = BootInstant::now();
        table.early_stops.retain(|(_, at)| now.since(*at) < EARLY_STOP_KEPT);
        table.early_stops.push((key, now));
        false
    }

    /// All runs.
    pub(crate) fn all(&self) -> Vec<Arc<Run>> {
        self.table().runs.values().cloned().collect()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.table().runs.len()
    }

    /// When the next lease runs out unanswered.
    pub(crate) fn next_lapse(&self) -> Option<BootInstant> {
        self.table().runs.values().filter_map(|run| run.lapses_at()).min()
    }
}
