//! How a record lies in Redis: the layout that `lua/lib/codec.lua` packs. A head of fixed form, a MessagePack map of
//! what is rare, what never changes, and the output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BudgetUse, FailureKind, PhaseNow, Reconciled, Stop, TaskRecord};
use crate::FORMAT;
use crate::body::Body;
use crate::bounds::Deadline;
use crate::error::{Error, Result};
use crate::keys::LEVELS;
use crate::name::{BudgetName, Incarnation, Lane, Owner, PhaseName, RunId, TaskId, WorkerName};
use crate::policy::{self, Policy};
use crate::state::TaskState;
use crate::time::as_ms;

/// What every record begins with: no MessagePack does.
const MAGIC: u8 = 0xc1;
/// Of name, payload and spec; what never changes of a task begins with it.
const DIGEST_BYTES: usize = 8;
/// The states by their codes, from 1.
const STATES: [TaskState; 9] = [
    TaskState::Scheduled,
    TaskState::Queued,
    TaskState::Running,
    TaskState::Aborting,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::TimedOut,
    TaskState::Aborted,
    TaskState::Waiting,
];

/// What never changes of a task, as `enqueue` takes it and the record keeps it: digest, policy, body.
pub(crate) fn fixed(body: &Body) -> Result<Vec<u8>> {
    let policy = body.policy.to_arg()?;
    let length = u8::try_from(policy.len()).map_err(|_| Error::invalid("policy", "is over 255 bytes"))?;
    let mut fixed = Vec::with_capacity(DIGEST_BYTES + 3 + policy.len() + body.payload.len() + 64);
    fixed.extend_from_slice(&[0, 0]);
    fixed.extend_from_slice(&body.digest());
    fixed.push(length);
    fixed.extend_from_slice(&policy);
    body.encode_into(&mut fixed)?;
    // One that is longer does not lie in the record: the script takes its body out and writes the length.
    if let Ok(length) = u16::try_from(fixed.len() - 2) {
        fixed[..2].copy_from_slice(&length.to_be_bytes());
    }
    Ok(fixed)
}

/// What scripts have to know of a task beyond its policy; empty where there is nothing.
pub(crate) fn spec(body: &Body) -> Result<Vec<u8>> {
    let bounds = &body.bounds;
    let spec = Spec {
        lane: body.lane.as_ref().map(Lane::as_str),
        owner: body.owner.as_ref().map(Owner::as_str),
        deadline: bounds.deadline.map(|deadline| match deadline {
            Deadline::After(after) => format!("+{}", as_ms(after)),
            Deadline::At(ms) => format!("@{ms}"),
        }),
        silence: bounds.silence_notice.map(as_ms),
        stall: bounds.stall_timeout.map(as_ms),
        budgets: Some(&bounds.budgets).filter(|budgets| !budgets.is_empty()),
    };
    if spec == Spec::default() {
        return Ok(Vec::new());
    }
    rmp_serde::to_vec_named(&spec).map_err(|e| Error::Protocol(e.to_string()))
}

/// The fields as `lua/lib/enqueue_rare.lua` takes them.
#[derive(Serialize, Default, PartialEq)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    silence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets: Option<&'a BTreeMap<BudgetName, u64>>,
}

/// The fields that few tasks have.
#[derive(Deserialize, Default)]
struct Rare {
    #[serde(default)]
    sp: Option<Stop>,
    #[serde(default)]
    fk: Option<FailureKind>,
    #[serde(default)]
    le: Option<(RunId, Incarnation, String)>,
    #[serde(default)]
    pg: Option<f64>,
    #[serde(default)]
    ml: Option<f64>,
    #[serde(default)]
    ln: Option<Lane>,
    #[serde(default)]
    ow: Option<Owner>,
    #[serde(default)]
    dl: Option<f64>,
    #[serde(default)]
    la: Option<f64>,
    #[serde(default)]
    sn: Option<f64>,
    #[serde(default)]
    ck: Option<f64>,
    #[serde(default)]
    bu: BTreeMap<BudgetName, (f64, f64)>,
    #[serde(default)]
    ph: Option<StoredPhase>,
    #[serde(default)]
    uk: Option<(f64, String)>,
    #[serde(default)]
    rc: Option<StoredReconciled>,
    #[serde(default)]
    un: Option<f64>,
    // What only the scripts need. Of another type it would mean nothing to them.
    #[serde(default)]
    us: Option<f64>,
    #[serde(default)]
    lo: Option<f64>,
    #[serde(default)]
    lb: Option<f64>,
    #[serde(default)]
    rr: Option<f64>,
    #[serde(default)]
    dr: Option<f64>,
    #[serde(default)]
    si: Option<f64>,
    #[serde(default)]
    sa: Option<f64>,
    #[serde(default)]
    up: Option<f64>,
    #[serde(default)]
    uc: Option<f64>,
    #[serde(default, rename = "lh")]
    _lh: Option<String>,
    #[serde(default)]
    ub: Option<(f64, String, String)>,
}

impl Rare {
    /// No number is NaN, which the scripts could not reckon with.
    fn is_sound(&self) -> bool {
        let charges = self.ub.as_ref().map(|ub| ub.0);
        let numbers = [
            self.pg, self.ml, self.dl, self.la, self.sn, self.ck, self.un, self.us, self.lo, self.lb,
            self.rr, self.dr, self.si, self.sa, self.up, self.uc, charges,
        ];
        let budgets = self.bu.values().flat_map(|(most, spent)| [*most, *spent]);
        numbers.into_iter().flatten().chain(budgets).all(|n| !n.is_nan())
    }
}

#[derive(Deserialize)]
struct StoredPhase {
    n: PhaseName,
    at: f64,
    tm: f64,
    #[serde(default)]
    e: Option<f64>,
}

#[derive(Deserialize)]
struct StoredReconciled {
    at: f64,
    by: String,
    why: String,
}

/// Lua's numbers are doubles; those that records hold are whole.
fn whole(n: f64) -> u64 {
    n as u64
}

/// Reads big-endian numbers and counted bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        Some(self.bytes(width)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    /// Bytes behind their count, which has this width.
    fn counted(&mut self, width: usize) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number(width)?).ok()?;
        self.bytes(count)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted(1)?).ok()
    }
}

fn unless_zero(n: u64) -> Option<u64> {
    (n > 0).then_some(n)
}

/// Reads a record.
pub(super) fn decode(id: &TaskId, bytes: &[u8]) -> Result<TaskRecord> {
    if let [MAGIC, found, ..] = bytes
        && u32::from(*found) > FORMAT
    {
        return Err(Error::NewerFormat { what: format!("task {id}"), found: (*found).into(), known: FORMAT });
    }
    read(id, bytes).ok_or_else(|| Error::Protocol(format!("the record of task {id} cannot be read")))
}

fn read(id: &TaskId, bytes: &[u8]) -> Option<TaskRecord> {
    let mut r = Reader(bytes);
    if r.number(1)? != u64::from(MAGIC) || r.number(1)? != u64::from(FORMAT) {
        return None;
    }
    let state = *STATES.get(usize::try_from(r.number(1)?).ok()?.checked_sub(1)?)?;
    let (rev, at) = (r.number(4)?, r.number(6)?);
    let level = *LEVELS.get(usize::try_from(r.number(1)?).ok()?.checked_sub(1)?)?;
    let (attempt, failures, reclaims) = (r.number(4)?, r.number(2)?, r.number(2)?);
    let (begun, token) = (r.number(6)?, r.number(8)?);
    let (run, incarnation) = (r.text()?, r.text()?);
    let rare = match r.counted(3)? {
        [] => Rare::default(),
        map => rmp_serde::from_slice(map).ok()?,
    };
    let (worker, enqueued_ms) = (std::str::from_utf8(r.counted(1)?).unwrap_or_default(), r.number(6)?);
    let (policy, body) = split_fixed(r.counted(2)?)?;
    let runs = matches!(state, TaskState::Running | TaskState::Aborting);
    if (state == TaskState::Queued && run.is_empty())
        || (runs && (attempt == 0 || begun == 0))
        || (state == TaskState::Aborting && rare.sp.is_none())
        || !rare.is_sound()
    {
        return None;
    }
    let ran = runs || (state.is_terminal() && !incarnation.is_empty());
    let last_run = rare.le.map(|(run, _, _)| run);
    let phase = rare.ph.map(|p| PhaseNow {
        name: p.n,
        since_ms: whole(p.at),
        timeout_ms: unless_zero(whole(p.tm)),
        ended_ms: p.e.map(whole),
    });
    let budget =
        |(name, (most, spent)): (_, (f64, f64))| (name, BudgetUse { most: whole(most), spent: whole(spent) });
    Some(TaskRecord {
        id: id.clone(),
        state,
        rev,
        attempt,
        failures,
        reclaims,
        priority: level.parse().ok()?,
        policy,
        entry: (state == TaskState::Queued).then(|| run.to_owned()),
        run: match RunId::new(run) {
            Ok(run) if ran => Some(run),
            Err(_) if runs => return None,
            _ => last_run,
        },
        incarnation: if runs { Some(Incarnation::new(incarnation).ok()?) } else { None },
        worker: WorkerName::new(worker).ok(),
        token: unless_zero(token),
        enqueued_ms,
        due_ms: unless_zero(at).filter(|_| state == TaskState::Scheduled),
        waiting_ms: unless_zero(at).filter(|_| state == TaskState::Waiting),
        started_ms: unless_zero(begun),
        ended_ms: unless_zero(at).filter(|_| state.is_terminal()),
        stop: rare.sp,
        failure_kind: rare.fk,
        progress: rare.pg,
        suspected: rare.ml.is_some(),
        missed_at: rare.ml.map(|ms| ms as i64),
        lane: rare.ln,
        owner: rare.ow,
        deadline_ms: rare.dl.map(whole),
        last_event_ms: rare.la.map(whole),
        silent_since_ms: rare.sn.map(whole),
        checkpoint_bytes: rare.ck.map(whole),
        budgets: rare.bu.into_iter().map(budget).collect(),
        phase,
        unkillable: rare.uk.map(|(_, pids)| pids),
        reconciled: rare.rc.map(|r| Reconciled { at_ms: whole(r.at), by: r.by, reason: r.why }),
        unknown_since_ms: rare.un.map(whole),
        body: (!body.is_empty()).then(|| body.to_vec()),
        output: (!r.0.is_empty()).then(|| r.0.to_vec()),
    })
}

/// The body in what `enqueue` takes.
pub(crate) fn body_of_fixed(fixed: &[u8]) -> Option<Body> {
    let (_, body) = split_fixed(fixed.get(2..)?)?;
    Body::decode(body).ok()
}

fn split_fixed(fixed: &[u8]) -> Option<(Policy, &[u8])> {
    let mut r = Reader(fixed);
    r.bytes(DIGEST_BYTES)?;
    let policy = match r.counted(1)? {
        [] => Policy::default(),
        packed => policy::from_record(packed)?,
    };
    Some((policy, r.0))
}
