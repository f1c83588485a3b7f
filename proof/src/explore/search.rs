//! Breadth first through the states of a world, so that the first path to a breach is a shortest one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::drain::{Drained, drain};
use super::finger::{Finger, finger, finger_of_keys};
use super::mind::Menu;
use super::plan::Plan;
use super::session::{MakeShadow, Packed, Session};
use super::state::State;
use super::step::Step;

/// So many paths of a world are gone once more without a stop.
const REPLAYS: usize = 100;

/// States that merged into one that was known: one of so many is held beside it.
const TWINS_OF: u128 = 64;
/// So many of them in a world.
const TWINS: usize = 200;

/// How far to go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest path; none = as the plan says.
    pub depth: Option<usize>,
    /// The most pairs of state and action.
    pub pairs: usize,
    /// How many servers, each with a thread.
    pub jobs: usize,
    /// The longest time, drains included.
    pub time: Duration,
}

/// What is broken, and how to get there.
#[derive(Debug, Clone)]
pub struct Breach {
    /// The path.
    pub steps: Vec<Step>,
    /// What is broken after its last step.
    pub problems: Vec<String>,
}

/// What was found in a world.
#[derive(Debug, Clone)]
pub struct Report {
    /// The world.
    pub world: &'static str,
    /// Distinct states.
    pub states: usize,
    /// Distinct pairs of state and action, each judged.
    pub pairs: usize,
    /// All paths up to so many steps, behind those with which the world begins, were taken.
    pub depth: usize,
    /// There is nothing beyond that depth.
    pub whole: bool,
    /// States at the ends of paths from which everything was seen to end.
    pub drained: usize,
    /// Ends whose paths were gone once more without a stop, and at which the doctor looked.
    pub replayed: usize,
    /// Pairs of states that merged and were gone on from both: each step led both to the same.
    pub twins: usize,
    /// How many ends there were.
    pub ends: usize,
    /// How long it took.
    pub time: Duration,
    /// The first breach.
    pub breach: Option<Breach>,
}

/// A state in the order in which it was found.
struct Node {
    number: u32,
    state: State,
}

/// A state that merged into one that was known, with the step that led to it.
struct Twin {
    finger: Finger,
    from: u32,
    step: Step,
    state: State,
}

/// Where the steps from a state lead.
type Ways = BTreeMap<Finger, Step>;

/// A breach, as it is noted: behind this state and these further steps.
struct Found {
    at: u32,
    more: Vec<Step>,
    problems: Vec<String>,
}

/// What the threads share.
struct Shared {
    plan: Arc<Plan>,
    limits: Limits,
    begun: Instant,
    known: Mutex<HashSet<Finger>>,
    /// Of each state, the one that it was found from, and the step.
    found_by: Mutex<Vec<(u32, Step)>>,
    pairs: AtomicUsize,
    stop: AtomicBool,
    breach: Mutex<Option<Found>>,
    drained: Mutex<HashMap<Finger, usize>>,
    drains: AtomicUsize,
    replays: AtomicUsize,
    ways: Mutex<HashMap<Finger, Ways>>,
    twins: Mutex<Vec<Twin>>,
    compared: AtomicUsize,
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Explores a world.
pub fn search(plan: Plan, limits: Limits, model: MakeShadow) -> Report {
    let depth = limits.depth.unwrap_or(plan.depth);
    let shared = Shared {
        plan: Arc::new(plan),
        limits,
        begun: Instant::now(),
        known: Mutex::default(),
        found_by: Mutex::default(),
        pairs: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        breach: Mutex::default(),
        drained: Mutex::default(),
        drains: AtomicUsize::new(0),
        replays: AtomicUsize::new(0),
        ways: Mutex::default(),
        twins: Mutex::default(),
        compared: AtomicUsize::new(0),
    };
    let mut sessions: Vec<Session> =
        (0..limits.jobs).map(|_| Session::start(shared.plan.clone(), model)).collect();
    let root = match sessions[0].walk(&shared.plan.begins) {
        Ok(root) => root,
        Err(problems) => {
            shared.note(0, Vec::new(), problems);
            sessions[0].root()
        }
    };
    lock(&shared.known).insert(finger(&shared.plan, &root));
    lock(&shared.found_by).push((0, Step::Tick));
    let mut level = vec![Node { number: 0, state: root }];
    let mut done = 0;
    // A breadth of states that were not gone on from: the ends of all paths.
    while done < depth && !level.is_empty() && !shared.is_over() {
        let (next, rest) = shared.expand(&mut sessions, level);
        level = next;
        if rest.is_empty() {
            done += 1;
        } else {
            level.extend(rest);
            break;
        }
    }
    let (ends, whole) = (level.len(), level.is_empty() && done < depth);
    shared.compare_twins(&mut sessions);
    shared.finish_all(&mut sessions, level);
    let states = lock(&shared.known).len();
    let breach = lock(&shared.breach).take();
    Report {
        world: shared.plan.world.name,
        states,
        pairs: shared.pairs.load(Ordering::Relaxed),
        depth: done,
        whole,
        drained: shared.drains.load(Ordering::Relaxed),
        twins: shared.compared.load(Ordering::Relaxed),
        replayed: shared.replays.load(Ordering::Relaxed),
        ends,
        time: shared.begun.elapsed(),
        breach: breach.map(|found| {
            let mut steps = shared.path(found.at);
            steps.extend(found.more);
            Breach { steps, problems: found.problems }
        }),
    }
}

impl Shared {
    /// No further level is begun: a breach was found, or the budget is used up. Drains have a fifth of the time.
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.pairs.load(Ordering::Relaxed) >= self.limits.pairs
            || self.begun.elapsed() > self.limits.time.mul_f64(0.8)
    }

    /// Takes every step from every state of a level: the states that were new, and those that were not reached.
    fn expand(&self, sessions: &mut [Session], level: Vec<Node>) -> (Vec<Node>, Vec<Node>) {
        let queue = Mutex::new(level);
        let next = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for session in sessions {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while !self.is_over() {
                        let Some(node) = lock(&queue).pop() else { break };
                        self.expand_one(session, &node, &mut mine);
                    }
                    lock(&next).extend(mine);
                });
            }
        });
        let unwrap = |mutex: Mutex<Vec<Node>>| mutex.into_inner().unwrap_or_else(PoisonError::into_inner);
        (unwrap(next), unwrap(queue))
    }

    fn expand_one(&self, session: &mut Session, node: &Node, next: &mut Vec<Node>) {
        let mut ways = Ways::new();
        let from = node.number;
        self.each_step(session, &node.state, |step, taken| match taken {
            Ok(state) => {
                self.pairs.fetch_add(1, Ordering::Relaxed);
                let finger = finger(&self.plan, &state);
                ways.insert(finger, step.clone());
                if lock(&self.known).insert(finger) {
                    let mut found_by = lock(&self.found_by);
                    found_by.push((from, step));
                    let number = u32::try_from(found_by.len() - 1).expect("fewer states than that");
                    drop(found_by);
                    next.push(Node { number, state });
                } else if finger.is_multiple_of(TWINS_OF) && lock(&self.twins).len() < TWINS {
                    lock(&self.twins).push(Twin { finger, from, step, state });
                }
            }
            Err(problems) => self.note(from, vec![step], problems),
        });
        let own = finger(&self.plan, &node.state);
        if own.is_multiple_of(TWINS_OF) {
            lock(&self.ways).insert(own, ways);
        }
    }

    /// Takes every step that may come next.
    fn each_step(
        &self,
        session: &mut Session,
        state: &State,
        mut then: impl FnMut(Step, Result<State, Vec<String>>),
    ) {
        let packed = Packed::of(state, &session.prefix());
        let ends = packed.ends(&self.plan);
        let steps = Menu::steps(&self.plan, &state.mind, &ends, state.mark_age());
        let taken = session.take_all(&packed, &steps);
        steps.into_iter().zip(taken).for_each(|(step, taken)| then(step, taken));
    }

    /// Goes on from states that merged into others: their steps must lead to the same states.
    fn compare_twins(&self, sessions: &mut [Session]) {
        let twins = std::mem::take(&mut *lock(&self.twins));
        for twin in twins {
            let known = lock(&self.ways).get(&twin.finger).cloned();
            let Some(known) = known.filter(|_| !self.stop.load(Ordering::Relaxed)) else { continue };
            let mut ways = Ways::new();
            self.each_step(&mut sessions[0], &twin.state, |step, taken| match taken {
                Ok(state) => drop(ways.insert(finger(&self.plan, &state), step)),
                Err(problems) => self.note(twin.from, vec![twin.step.clone(), step], problems),
            });
            let only = |one: &Ways, other: &Ways| {
                let only = one.iter().filter(|(finger, _)| !other.contains_key(finger));
                only.map(|(_, step)| step.code()).collect::<Vec<_>>()
            };
            let (here, there) = (only(&ways, &known), only(&known, &ways));
            if !(here.is_empty() && there.is_empty()) {
                let problem =
                    format!("the fingerprint merges what differs: only here {here:?}, only there {there:?}");
                self.note(twin.from, vec![twin.step], vec![problem]);
            }
            self.compared.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes a breach, and that it is over. The first one stays.
    fn note(&self, at: u32, more: Vec<Step>, problems: Vec<String>) {
        lock(&self.breach).get_or_insert(Found { at, more, problems });
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Lets everything end from the ends of all paths, as far as the time allows. Of some the path is gone once more on a
    /// fresh queue, nothing put there in between, and the doctor looks at its end.
    fn finish_all(&self, sessions: &mut [Session], level: Vec<Node>) {
        let every = (level.len() / REPLAYS).max(1);
        let queue = Mutex::new(level);
        std::thread::scope(|scope| {
            for session in sessions {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) && self.begun.elapsed() < self.limits.time {
                        let Some(node) = lock(&queue).pop() else { break };
                        if lock(&queue).len().is_multiple_of(every) {
                            self.replay(session, &node);
                        }
                        match drain(session, &self.plan, node.state, &self.drained) {
                            Ok(Drained) => drop(self.drains.fetch_add(1, Ordering::Relaxed)),
                            Err((more, problems)) => self.note(node.number, more, problems),
                        }
                    }
                });
            }
        });
    }

    fn replay(&self, session: &mut Session, node: &Node) {
        let steps = self.path(node.number);
        if steps.contains(&Step::FailOver) {
            return;
        }
        let there = session.replay(&steps);
        if finger_of_keys(&self.plan, &there) != finger_of_keys(&self.plan, &node.state.view) {
            let problem =
                format!("gone without a stop the path ends at {there:?}, not at {:?}", node.state.view);
            self.note(node.number, Vec::new(), vec![problem]);
        }
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    fn path(&self, mut at: u32) -> Vec<Step> {
        let found_by = lock(&self.found_by);
        let mut steps = Vec::new();
        while at != 0 {
            let (from, step) = &found_by[at as usize];
            steps.push(step.clone());
            at = *from;
        }
        steps.extend(self.plan.begins.iter().rev().cloned());
        steps.reverse();
        steps
    }
}
