//! What tells a process from every other, and whether the one of a registry entry is dead for certain.

use leasehold_common::store::{ProcessMark, WorkerInfo};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::guard::procs::Proc;

/// This process. Empty, which proves nothing, where the system does not say, or `/proc` shows another pid namespace than
/// the one that this process is in: its numbers would be those of strangers.
pub(crate) fn own_mark() -> ProcessMark {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let shown = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse::<u32>().ok());
    let process = i32::try_from(std::process::id()).ok().and_then(Proc::read);
    match (boot, namespace, process) {
        (Ok(boot), Ok(namespace), Some(process)) if shown == Some(std::process::id()) => ProcessMark {
            boot_id: boot.trim().to_owned(),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            started_ticks: process.start,
        },
        _ => ProcessMark::default(),
    }
}

/// Is the worker of this entry dead? Only who sees the same processes can tell: same boot, same pid namespace, and the
/// pid is gone, a zombie, or another's. Of all others the entry is believed until it lapses.
pub(crate) fn is_dead(own: &ProcessMark, entry: &WorkerInfo) -> bool {
    let theirs = &entry.mark;
    let comparable = !own.boot_id.is_empty() && !own.pid_namespace.is_empty() && theirs.started_ticks > 0;
    comparable
        && own.boot_id == theirs.boot_id
        && own.pid_namespace == theirs.pid_namespace
        && i32::try_from(entry.pid).is_ok_and(|pid| is_gone(pid, theirs.started_ticks))
}

fn is_gone(pid: i32, started: u64) -> bool {
    if pid <= 0 {
        return false;
    }
    // Asked of the kernel: `/proc` may hide the processes of other users.
    if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
        return true;
    }
    Proc::read(pid).is_some_and(|process| process.is_gone() || process.start != started)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{is_dead, own_mark};
    use leasehold_common::name::Incarnation;
    use leasehold_common::store::{ProcessMark, WorkerInfo};
    use std::process::{Command, Stdio};

    fn entry(pid: u32, mark: ProcessMark) -> WorkerInfo {
        WorkerInfo {
            name: crate::config::default_name(),
            incarnation: Incarnation::fresh(),
            host: "h".to_owned(),
            pid,
            mark,
            started_ms: 1,
            queues: Default::default(),
            running: 0,
            status: "running".to_owned(),
        }
    }

    #[test]
    fn r11_only_a_process_that_could_be_seen_and_is_not_there_is_dead() {
        let own = own_mark();
        assert!(!own.boot_id.is_empty() && own.pid_namespace.starts_with("pid:") && own.started_ticks > 0);
        let me = std::process::id();
        assert!(!is_dead(&own, &entry(me, own.clone())), "it lives");
        let reused = ProcessMark { started_ticks: own.started_ticks + 1, ..own.clone() };
        assert!(is_dead(&own, &entry(me, reused.clone())), "another process has its pid");
        for elsewhere in [
            ProcessMark { boot_id: "another".to_owned(), ..reused.clone() },
            ProcessMark { pid_namespace: "pid:[1]".to_owned(), ..reused.clone() },
            ProcessMark { started_ticks: 0, ..reused.clone() },
            ProcessMark::default(),
        ] {
            assert!(!is_dead(&own, &entry(me, elsewhere.clone())), "{elsewhere:?} proves nothing");
            assert!(!is_dead(&ProcessMark::default(), &entry(me, elsewhere)), "who knows nothing of itself");
        }
        assert!(!is_dead(&own, &entry(0, reused)), "no pid");
    }

    #[test]
    fn r11_a_zombie_is_dead_before_anybody_has_waited_for_it() {
        let own = own_mark();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let started = super::Proc::read(i32::try_from(pid).unwrap()).unwrap().start;
        let its = entry(pid, ProcessMark { started_ticks: started, ..own.clone() });
        assert!(!is_dead(&own, &its));
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !is_dead(&own, &its) {
            assert!(std::time::Instant::now() < deadline, "a zombie counts as gone");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_dead(&own, &its));
    }
}
