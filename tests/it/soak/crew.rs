//! The processes of the soak: Redis, four workers, two reapers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_tests::process::Finished;
use leasehold_tests::{Leasehold, Proc, RedisServer, eventually, procfs};

use super::plan::Queue;

/// Nothing of a process takes this long unless it is broken.
const LIMIT: Duration = Duration::from_secs(60);
/// How long what a process left may take to be gone.
const GONE_LIMIT: Duration = Duration::from_secs(10);

/// What a log must not hold.
const BAD_WORDS: [&str; 2] = ["panicked at", "a defect of leasehold"];

/// Who works, or sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `leasehold worker`, for commands.
    Worker,
    /// The worker with a handler, for both queues.
    Hands,
    /// `leasehold reaper`.
    Reaper,
}

/// A process under its name, started again whenever it was ended.
#[derive(Debug)]
struct Member {
    name: &'static str,
    role: Role,
    process: Option<Proc>,
}

/// All of them. Which process a number means stays the same.
pub(super) struct Crew {
    pub(super) redis: RedisServer,
    members: Vec<Member>,
    environment: Vec<(String, String)>,
    /// Processes seen below workers, by start time: none may be left at the end.
    below: RefCell<BTreeMap<i32, u64>>,
    /// What went wrong with a process.
    pub(super) complaints: RefCell<Vec<String>>,
}

pub(super) const WORKERS: usize = 4;
pub(super) const REAPERS: usize = 2;

impl Crew {
    /// Nobody works yet: see [`revive`](Self::revive).
    pub(super) fn new(redis: RedisServer, environment: Vec<(String, String)>) -> Self {
        let names = [
            ("anna", Role::Worker),
            ("bert", Role::Worker),
            ("clara", Role::Hands),
            ("dora", Role::Hands),
            ("first reaper", Role::Reaper),
            ("second reaper", Role::Reaper),
        ];
        let members = names.map(|(name, role)| Member { name, role, process: None }).into();
        Self { redis, members, environment, below: RefCell::default(), complaints: RefCell::default() }
    }

    pub(super) fn name(&self, number: usize) -> &'static str {
        self.members[number].name
    }

    fn complain(&self, what: String) {
        eprintln!("complaint: {what}");
        self.complaints.borrow_mut().push(what);
    }

    /// Starts whoever is not there, under the same name.
    pub(super) fn revive(&mut self) {
        for member in &mut self.members {
            if member.process.is_none() {
                let mut process = spawn(&self.redis, member, &self.environment);
                let started = if member.role == Role::Reaper { "reaper started" } else { "worker started" };
                process.wait_for_output(started, LIMIT);
                member.process = Some(process);
            }
        }
    }

    /// Remembers what runs below a worker, its guard among it.
    fn note_below(&self, process: &Proc) {
        for pid in procfs::descendants(process.pid()) {
            if let Some(stat) = procfs::stat(pid) {
                self.below.borrow_mut().insert(pid, stat.started);
            }
        }
    }

    fn read_log(&self, name: &str, log: &str) {
        for line in log.lines().filter(|line| BAD_WORDS.iter().any(|bad| line.contains(bad))) {
            self.complain(format!("{name} said: {line}"));
        }
    }

    /// SIGKILL, if it is there.
    pub(super) fn kill(&mut self, number: usize) -> bool {
        let Some(mut process) = self.members[number].process.take() else { return false };
        self.note_below(&process);
        process.kill();
        self.read_log(self.name(number), &process.stderr());
        true
    }

    /// SIGTERM; it must end with 0.
    pub(super) fn drain(&mut self, number: usize) {
        let Some(process) = self.members[number].process.take() else { return };
        self.note_below(&process);
        let finished: Finished = process.terminate(LIMIT);
        let name = self.name(number);
        self.read_log(name, &finished.stderr);
        if finished.code() != 0 {
            self.complain(format!("{name} ended with {}:\n{}", finished.code(), finished.stderr));
        }
    }

    /// SIGSTOP, if it is there.
    pub(super) fn freeze(&self, number: usize) {
        if let Some(process) = &self.members[number].process {
            self.note_below(process);
            process.stop();
        }
    }

    /// SIGCONT, if it is there.
    pub(super) fn thaw(&self, number: usize) {
        if let Some(process) = &self.members[number].process {
            process.cont();
        }
    }

    /// Whoever ended without having been told to.
    pub(super) fn look_for_deserters(&mut self) {
        for number in 0..self.members.len() {
            let member = &mut self.members[number];
            let Some(status) = member.process.as_mut().and_then(Proc::try_wait) else { continue };
            let log = member.process.take().map(|process| process.stderr()).unwrap_or_default();
            self.complain(format!("{} ended by itself, {status}:\n{log}", self.name(number)));
        }
    }

    /// Tells all to stop, and what is left of them and of commands after a while.
    pub(super) fn dismiss(&mut self, mark: &str) -> Vec<String> {
        for number in 0..self.members.len() {
            self.drain(number);
        }
        let mut left = Vec::new();
        let looked = leasehold_tests::comes_true(GONE_LIMIT, || {
            let below = self.below.borrow();
            let there = |(pid, started): &(&i32, &u64)| {
                procfs::stat(**pid).is_some_and(|stat| stat.started == **started && stat.state != 'Z')
            };
            left = below.iter().filter(there).map(|(pid, _)| *pid).collect();
            left.extend(procfs::processes_with_env(mark));
            left.is_empty()
        });
        if looked { Vec::new() } else { procfs::describe(&left).lines().map(str::to_owned).collect() }
    }

    /// Waits until Redis answers again after what was done to it.
    pub(super) fn redis_is_back(&self) {
        eventually("Redis answers", LIMIT, || {
            self.redis.try_command::<String>(&["PING"]).map_err(|error| error.to_string())
        });
    }
}

fn spawn(redis: &RedisServer, member: &Member, environment: &[(String, String)]) -> Proc {
    let command = match member.role {
        Role::Reaper => Leasehold::new(redis).arg("reaper"),
        Role::Worker => {
            let slots = format!("{}=4", Queue::Shell.name());
            let arguments = ["worker", "--queue", &slots, "--name", member.name, "--allow-exec"];
            Leasehold::new(redis).args(arguments).args(["--drain-grace", "700ms"])
        }
        Role::Hands => {
            let program = env!("CARGO_BIN_EXE_leasehold-soak");
            Leasehold::other_program(program, redis).args(["worker", member.name])
        }
    };
    environment.iter().fold(command, |command, (name, value)| command.env(name, value)).spawn()
}
