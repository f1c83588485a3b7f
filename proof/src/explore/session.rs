//! A private Redis on which steps are taken from any state: the state's keys are put there, the call is made, and all
//! keys are read, in one round trip.

use std::sync::Arc;

use leasehold_tests::redis_server::RedisServer;

use super::judge::judge;
use super::mind::Mind;
use super::plan::Plan;
use super::safety::{Change, is_volatile};
use super::state::{Mark, Records, Shadow, State, records};
use super::step::Step;
use crate::caller::Made;
use crate::direct::Shot;
use crate::real::Real;
use crate::view::{Held, View};
use crate::words::{Answer, Call};

/// Makes the model of a world, where there is one.
pub type MakeShadow = fn(&Plan) -> Option<Box<dyn Shadow>>;

/// A server on which steps are taken.
pub struct Session {
    real: Real,
    plan: Arc<Plan>,
    model: MakeShadow,
}

/// A state whose keys are packed as commands, with its records.
pub struct Packed<'a> {
    state: &'a State,
    records: Records,
    commands: Vec<u8>,
    count: usize,
}

impl<'a> Packed<'a> {
    /// Of a state.
    ///
    /// # Panics
    /// When a record cannot be read: the step that made it has been refused before.
    pub fn of(state: &'a State, prefix: &str) -> Self {
        let mut packed = Self {
            state,
            records: records(&state.view).expect("records that can be read"),
            commands: redis::cmd("FLUSHDB").get_packed_command(),
            count: 1,
        };
        for (suffix, held) in &state.view.keys {
            packed.put(&format!("{prefix}{suffix}"), held);
        }
        packed
    }

    /// Of each task, its `rev`, and whether it has ended.
    pub fn ends(&self, plan: &Plan) -> Vec<Option<(u64, bool)>> {
        State::ends(plan, &self.records)
    }

    fn put(&mut self, key: &str, held: &Held) {
        let mut one = |name: &str, parts: &[&[u8]]| {
            let mut cmd = redis::cmd(name);
            cmd.arg(key);
            for part in parts {
                cmd.arg(*part);
            }
            self.commands.extend(cmd.get_packed_command());
            self.count += 1;
        };
        let parts: Vec<&[u8]> = held.parts.iter().map(Vec::as_slice).collect();
        match &*held.kind {
            "string" => one("SET", &parts),
            "hash" => one("HSET", &parts),
            "list" => one("RPUSH", &parts),
            "zset" => {
                let pairs = parts.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]);
                one("ZADD", &pairs.collect::<Vec<_>>());
            }
            "stream" => parts.chunks_exact(2).for_each(|entry| one("XADD", &[entry[0], b"i", entry[1]])),
            kind => panic!("{key} is a {kind}"),
        }
    }

    /// The commands, and one that sets the clock.
    fn at(&self, prefix: &str, clock: u64) -> (Vec<u8>, usize) {
        let mut commands = self.commands.clone();
        let mut cmd = redis::cmd("HSET");
        cmd.arg(format!("{prefix}config")).arg("clock").arg(clock);
        commands.extend(cmd.get_packed_command());
        (commands, self.count + 1)
    }
}

/// The call of a step, and how much time passes before it, or by it; none of a step that makes none.
fn made_by<'a>(step: &'a Step, sweep: &'a Call, beat_ms: u64) -> Option<(&'a Call, u64)> {
    match step {
        Step::Heard(call) | Step::Unheard(call) => {
            Some((call, if let Call::Pass { ms } = call { *ms } else { 0 }))
        }
        Step::Tick => Some((sweep, beat_ms)),
        Step::Lag | Step::FailOver | Step::Restart => None,
    }
}

/// A view as it is kept: without what says nothing of any task, sharing with `parent` what is the same.
fn kept(view: View, parent: &View) -> View {
    let keys = view
        .keys
        .into_iter()
        .filter(|(suffix, held)| &**suffix == "config" || !is_volatile(suffix, held.parts.len()));
    let share = |(suffix, held)| match parent.keys.get_key_value(&suffix) {
        Some((name, same)) if *same == held => (name.clone(), same.clone()),
        Some((name, _)) => (name.clone(), held),
        None => (suffix, held),
    };
    View { keys: keys.map(share).collect() }
}

impl Session {
    /// A server for a plan.
    pub fn start(plan: Arc<Plan>, model: MakeShadow) -> Self {
        let builder = RedisServer::builder();
        let builder = if plan.restarts { builder.aof_always() } else { builder.no_persistence() };
        Self { real: Real::on(builder, plan.world.clone()), plan, model }
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> String {
        self.real.caller_prefix()
    }

    /// The first state.
    pub fn root(&mut self) -> State {
        self.real.reset();
        State {
            view: kept(self.real.view(), &View::default()),
            mind: Mind::new(&self.plan),
            shadow: (self.model)(&self.plan),
            mark: None,
        }
    }

    /// Takes a step.
    ///
    /// # Errors
    /// What is broken after it.
    pub fn take(&mut self, from: &Packed<'_>, step: &Step) -> Result<State, Vec<String>> {
        self.take_all(from, std::slice::from_ref(step)).pop().expect("one state")
    }

    /// Takes each of these steps from a state, all in one round trip: the states, or what is broken after them.
    pub fn take_all(&mut self, from: &Packed<'_>, steps: &[Step]) -> Vec<Result<State, Vec<String>>> {
        let state = from.state;
        let runs = state.mind.runs();
        let (sweep, prefix) = (Call::Sweep, self.prefix());
        let mut shots = Vec::new();
        for step in steps {
            let Some((call, wait)) = made_by(step, &sweep, self.plan.beat_ms()) else { continue };
            let before = from.at(&prefix, state.view.now() + wait);
            let passes = matches!(call, Call::Pass { .. });
            let call = (!passes).then(|| {
                let caught = self.real.direct.caught(|| drop(self.real.make(&runs, call)));
                caught.expect("a call that can be made")
            });
            shots.push(Shot { before, call });
        }
        let mut hits = self.real.direct.volley(&shots).into_iter();
        let mut taken = Vec::with_capacity(steps.len());
        for step in steps {
            taken.push(match step {
                Step::Lag => Ok(self.lag(state)),
                Step::FailOver => self.fail_over(state),
                Step::Restart => self.restart(from),
                Step::Heard(_) | Step::Unheard(_) | Step::Tick => {
                    let (call, wait) = made_by(step, &sweep, self.plan.beat_ms()).expect("a call");
                    let (answer, view) = hits.next().expect("an answer for each");
                    let made = answer.map_or_else(
                        || Ok(Made::from(Answer::Passed)),
                        |answer| {
                            self.real.direct.answer_next(answer);
                            self.real.make(&runs, call)
                        },
                    );
                    match made {
                        Ok(made) => self.judged(from, step, (call, wait), &made, view),
                        Err(error) => Err(vec![format!("{call:?} failed: {error}")]),
                    }
                }
            });
        }
        taken
    }

    /// The state that a call made, if nothing is broken.
    fn judged(
        &self,
        from: &Packed<'_>,
        step: &Step,
        (call, wait): (&Call, u64),
        made: &Made,
        view: View,
    ) -> Result<State, Vec<String>> {
        let state = from.state;
        let after = records(&view).map_err(|problem| vec![problem])?;
        let mut found = judge(&self.plan, &view, &after);
        let (before, after) = ((&state.view, &from.records), (&view, &after));
        found.extend(Change { plan: &self.plan, mind: &state.mind, before, call, made, after }.breaches());
        let mut shadow = state.shadow.as_ref().map(|shadow| shadow.copy());
        if let Some(shadow) = &mut shadow {
            if *step == Step::Tick {
                shadow.play(&Call::Pass { ms: wait });
            }
            let answer = shadow.play(call);
            found.extend(disagreement(call, &made.answer, &answer, &view, &**shadow));
        }
        if !found.is_empty() {
            return Err(found);
        }
        let mut mind = state.mind.clone();
        mind.learn(&self.plan, step, Some(made));
        Ok(State { view: kept(view, &state.view), mind, shadow, mark: self.older(state) })
    }

    /// The replica catches up when it is too old.
    fn older(&self, state: &State) -> Option<Arc<Mark>> {
        let mark = state.mark.as_ref().filter(|mark| mark.age < self.plan.window)?;
        let shadow = mark.shadow.as_ref().map(|shadow| shadow.copy());
        Some(Arc::new(Mark { view: mark.view.clone(), shadow, age: mark.age + 1 }))
    }

    fn lag(&self, state: &State) -> State {
        let copy = || state.shadow.as_ref().map(|shadow| shadow.copy());
        let mut mind = state.mind.clone();
        mind.failovers = mind.failovers.saturating_sub(1);
        let mark = Mark { view: state.view.clone(), shadow: copy(), age: 0 };
        State { view: state.view.clone(), mind, shadow: copy(), mark: Some(Arc::new(mark)) }
    }

    /// The replica takes over: the keys are those of the mark, the time goes on, the clients know what they know.
    fn fail_over(&self, state: &State) -> Result<State, Vec<String>> {
        let Some(mark) = &state.mark else { return Err(vec!["there is no replica that lags".to_owned()]) };
        let mut view = mark.view.clone();
        view.set_clock(state.view.now());
        let mut shadow = mark.shadow.as_ref().map(|shadow| shadow.copy());
        if let Some(shadow) = &mut shadow {
            shadow.play(&Call::Pass { ms: state.view.now() - shadow.now() });
        }
        Ok(State { view, mind: state.mind.clone(), shadow, mark: None })
    }

    /// The server is restarted for real, and has all that was written.
    fn restart(&mut self, from: &Packed<'_>) -> Result<State, Vec<String>> {
        let state = from.state;
        self.real.direct.put_before(Arc::new(from.commands.clone()), from.count);
        let before = self.real.view();
        self.real.restart();
        let after = self.real.view();
        if before != after {
            return Err(vec![format!("a restart changed the keys from {before:?} to {after:?}")]);
        }
        let shadow = state.shadow.as_ref().map(|shadow| shadow.copy());
        Ok(State {
            view: kept(after, &state.view),
            mind: state.mind.clone(),
            shadow,
            mark: self.older(state),
        })
    }

    /// Goes along a path from the first state.
    ///
    /// # Errors
    /// What is broken after its last step.
    pub fn walk(&mut self, steps: &[Step]) -> Result<State, Vec<String>> {
        let mut state = self.root();
        for step in steps {
            let packed = Packed::of(&state, &self.prefix());
            state = self.take(&packed, step)?;
        }
        Ok(state)
    }

    /// Plays the calls of a path one after another on a fresh queue, nothing put there in between, and lets the doctor
    /// look at its end: the same state must come of it.
    pub fn replay(&mut self, steps: &[Step]) -> View {
        self.real.reset();
        let mut mind = Mind::new(&self.plan);
        for step in steps {
            match step {
                Step::Heard(call) | Step::Unheard(call) => {
                    let made = self.real.play_for(&mind.runs(), call);
                    mind.learn(&self.plan, step, Some(&made));
                }
                Step::Tick => {
                    self.real.play_for(&mind.runs(), &Call::Pass { ms: self.plan.beat_ms() });
                    self.real.play_for(&mind.runs(), &Call::Sweep);
                }
                Step::Restart => self.real.restart(),
                Step::Lag => {}
                Step::FailOver => panic!("a queue that lost writes is not replayed"),
            }
        }
        self.real.check();
        kept(self.real.view(), &View::default())
    }
}

/// Where model and scripts differ.
fn disagreement(
    call: &Call,
    answer: &Answer,
    expected: &Answer,
    view: &View,
    shadow: &dyn Shadow,
) -> Vec<String> {
    let mut found = Vec::new();
    if answer != expected {
        found.push(format!("{call:?} was answered\n    {answer:?}, and the model says\n    {expected:?}"));
    }
    let (seen, expected) = (view.seen(), shadow.seen());
    if seen != expected {
        found.push(format!("after {call:?} is seen\n    {seen:?}, and the model says\n    {expected:?}"));
    }
    found
}
