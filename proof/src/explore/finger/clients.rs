//! What the clients believe in a fingerprint, beside what Redis knows of it.

use std::collections::BTreeMap;

use super::super::mind::{Holding, Mind};
use super::super::state::{Records, records};
use super::keys::Memory;
use super::{FAR_MS, Ink, signed};
use crate::view::View;
use crate::words::TaskNo;

/// Writes what the clients believe, each belief by what it is to these views.
pub(super) fn mind(ink: &mut Ink, mind: &Mind, views: &[&View]) {
    let all: Vec<Records> =
        views.iter().map(|view| records(view).expect("records that can be read")).collect();
    for (no, worker) in mind.workers.iter().enumerate() {
        let inc = format!("inc-w{no}");
        for view in views {
            let memory = view.string(&format!("claim:{inc}"));
            let memory: Option<Memory> = memory.and_then(|packed| rmp_serde::from_slice(packed).ok());
            ink.number(memory.map_or(-FAR_MS, |memory| signed(worker.number) - memory.n));
        }
        ink.number(signed(worker.number.min(2)));
        ink.count(worker.asked.0);
        ink.flag(worker.asked.1);
        ink.flag(worker.open);
        let mut held: Vec<Vec<i64>> =
            worker.held.iter().map(|holding| holding_marks(holding, &inc, &all)).collect();
        held.sort_unstable();
        held.dedup();
        ink.count(held.len());
        held.into_iter().flatten().for_each(|n| ink.number(n));
    }
    for (no, rev) in mind.named_rev.iter().enumerate() {
        ink.number(rev.map_or(i64::MIN, |rev| rev_mark(rev, no, &all)));
    }
    for record in all.iter().flat_map(BTreeMap::values) {
        // A `rev` that was retried once is either named by a client, as above, or by nobody.
        ink.flag(record.rare.rr.is_some_and(|rr| mind.named_rev.contains(&Some(rr as u64))));
    }
    mind.enqueued.iter().for_each(|sent| ink.flag(*sent));
    mind.aborts.iter().for_each(|n| ink.number((*n).into()));
    ink.flag(mind.other);
    mind.dead.iter().for_each(|dead| ink.flag(*dead));
    for n in [mind.retries, mind.deletes, mind.limits, mind.faults, mind.failovers] {
        ink.number(n.into());
    }
}

/// What a run in hand is to Redis: all that stand for nothing any longer are the same.
fn holding_marks(holding: &Holding, inc: &str, views: &[Records]) -> Vec<i64> {
    let mut marks = vec![i64::try_from(holding.run.task).expect("a small number")];
    for records in views {
        let mark = records.get(&holding.run.task).map_or(0, |record| {
            let head = record.run == holding.id.as_str();
            let last = record.rare.le.as_ref().filter(|le| le.0 == holding.id.as_str());
            1 + i64::from(head)
                + 2 * i64::from(head && record.inc == inc)
                + 4 * i64::from(last.is_some())
                + 8 * i64::from(last.is_some_and(|le| le.1 == inc))
        });
        marks.push(mark);
    }
    marks.push(holding.said.map_or(-1, |said| i64::try_from(said).expect("a small number")));
    marks.push(i64::from(holding.over));
    marks.extend(holding.told.map(signed));
    marks
}

/// What a named `rev` is to Redis: the record's own or a later one (after writes were lost), the one that was retried
/// last, or an old one.
fn rev_mark(rev: u64, no: TaskNo, views: &[Records]) -> i64 {
    let mut mark = 0;
    for records in views {
        let one = records.get(&no).map_or(-3, |record| {
            if rev >= record.rev {
                signed(rev - record.rev)
            } else if record.rare.rr == Some(rev as f64) {
                -1
            } else {
                -2
            }
        });
        mark = mark * 1000 + one;
    }
    mark
}
