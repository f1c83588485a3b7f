//! Every way of not starting, and what a started command finds.

use crate::support::{self, Bench, sh, until, write_script};
use leasehold_worker::exec::{CommandSpec, ExecPolicy, Exit, Launch, Limits, StartError, start};
use leasehold_worker::guard::BootInstant;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

fn refused(bench: &Bench, spec: CommandSpec) -> StartError {
    let error = bench.start(spec).map(|run| run.control().pid()).unwrap_err();
    assert!(error.is_permanent(), "{error}");
    error
}

pub(crate) fn missing_program() {
    let bench = Bench::new();
    let path = BTreeMap::from([("PATH".to_owned(), "/nowhere:/bin".to_owned())]);
    let error = refused(&bench, CommandSpec { env: path, ..CommandSpec::new(["no-such-program"]) });
    let text = error.to_string();
    assert!(text.contains("no-such-program") && text.contains("PATH=/nowhere:/bin"), "{text}");
    let error = refused(&bench, CommandSpec::new(["/no/such/program"]));
    assert_eq!(error, StartError::NotFound { program: "/no/such/program".into(), path: None });
}

pub(crate) fn wrong_cwd() {
    let bench = Bench::new();
    let at = |cwd: &str| refused(&bench, CommandSpec { cwd: Some(cwd.into()), ..sh("true") });
    assert_eq!(at("/no/such/dir"), StartError::CwdMissing { path: "/no/such/dir".into() });
    assert_eq!(at("/etc/passwd"), StartError::CwdNotDirectory { path: "/etc/passwd".into() });
    assert_eq!(at("/etc/passwd/x"), StartError::CwdNotDirectory { path: "/etc/passwd/x".into() });
}

pub(crate) fn not_executable() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    write_script(&path, 0o644, b"#!/bin/sh\n");
    let name = path.to_str().unwrap().to_owned();
    assert_eq!(
        refused(&bench, CommandSpec::new([name.clone()])),
        StartError::NotExecutable { path: name.clone() }
    );
    let directory = dir.path().to_str().unwrap().to_owned();
    assert_eq!(
        refused(&bench, CommandSpec::new([directory.clone()])),
        StartError::IsDirectory { path: directory }
    );
    // The interpreter may not be executed.
    let script = dir.path().join("other");
    write_script(&script, 0o755, format!("#!{name}\n").as_bytes());
    let error = refused(&bench, CommandSpec::new([script.to_str().unwrap()]));
    assert_eq!(error, StartError::NotExecutable { path: name });
}

pub(crate) fn missing_interpreter() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    for (line, interpreter) in [("#!/no/such/python -u\n", "/no/such/python"), ("#!/bin/sh\r\n", "/bin/sh\r")]
    {
        write_script(&path, 0o755, line.as_bytes());
        let path = path.to_str().unwrap().to_owned();
        let error = refused(&bench, CommandSpec::new([path.clone()]));
        assert_eq!(error, StartError::MissingInterpreter { path, interpreter: interpreter.into() });
    }
}

pub(crate) fn no_program_at_all() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    let name = path.to_str().unwrap().to_owned();
    for content in [&b"echo no shebang\n"[..], b"\x7fELF broken", b"\0\0\0\0"] {
        write_script(&path, 0o755, content);
        let error = refused(&bench, CommandSpec::new([name.clone()]));
        assert_eq!(error, StartError::NotAProgram { path: name.clone() });
    }
}

pub(crate) fn too_long() {
    let bench = Bench::new();
    let argument = "x".repeat(100_000);
    let argv = std::iter::once("true".to_owned()).chain(std::iter::repeat_n(argument, 100));
    match refused(&bench, CommandSpec::new(argv)) {
        StartError::TooLong { bytes } => assert!(bytes > 10_000_000, "{bytes}"),
        error => panic!("{error}"),
    }
}

pub(crate) fn nul_and_names() {
    let bench = Bench::new();
    assert!(matches!(refused(&bench, CommandSpec::new(["echo", "a\0b"])), StartError::Nul { .. }));
    assert_eq!(refused(&bench, CommandSpec::default()), StartError::Empty);
    let env = BTreeMap::from([("A=B".to_owned(), "x".to_owned())]);
    let error = refused(&bench, CommandSpec { env, ..sh("true") });
    assert!(matches!(error, StartError::VariableName { .. }));
}

pub(crate) fn busy_file() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    std::fs::copy("/bin/true", &path).unwrap();
    let spec = CommandSpec::new([path.to_str().unwrap()]);
    let writer = std::fs::File::options().append(true).open(&path).unwrap();
    let error = bench.start(spec.clone()).map(|run| run.control().pid()).unwrap_err();
    assert!(matches!(error, StartError::Busy { .. }) && !error.is_permanent(), "{error}");
    // One that is closed soon is waited for.
    let closing = std::thread::spawn(move || {
        until("a trampoline is there", || support::children("__leasehold-trampoline") > 0);
        drop(writer);
    });
    assert_eq!(bench.run(spec), Exit::Code(0));
    closing.join().unwrap();
}

pub(crate) fn lease_over() {
    let bench = Bench::new();
    let launch = Launch { lease_until: BootInstant::from_nanos(1), ..bench.launch(sh("sleep 1000")) };
    let error = bench.runtime.block_on(start(&bench.guard, launch)).map(|run| run.control().pid());
    assert_eq!(error, Err(StartError::LeaseOver));
}

pub(crate) fn given_up() {
    let bench = Bench::new();
    let launch = bench.launch(sh("sleep 1000"));
    launch.given_up.cancel();
    let error = bench.runtime.block_on(start(&bench.guard, launch)).map(|run| run.control().pid());
    assert_eq!(error, Err(StartError::GivenUp));
    assert!(StartError::GivenUp.to_string().contains("before it started"));
}

pub(crate) fn policy() {
    let bench = Bench::new();
    let with = |policy: ExecPolicy, argv: &[&str]| {
        let mut launch = bench.launch(CommandSpec::new(argv.iter().copied()));
        launch.policy = Arc::new(policy);
        bench.runtime.block_on(async {
            match start(&bench.guard, launch).await {
                Ok(mut run) => Ok(run.wait().await),
                Err(error) => Err(error),
            }
        })
    };
    assert_eq!(with(ExecPolicy::Off, &["true"]), Err(StartError::Off));
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    write_script(&dir.join("tool"), 0o755, b"#!/bin/sh\nexit 7\n");
    std::os::unix::fs::symlink("/bin/true", dir.join("link")).unwrap();
    let globs = ExecPolicy::from_options(&[format!("{}/*", dir.display())]).unwrap();
    assert_eq!(with(globs.clone(), &[dir.join("tool").to_str().unwrap()]), Ok(Exit::Code(7)));
    // A link out of the list is judged by where it leads.
    let error = with(globs.clone(), &[dir.join("link").to_str().unwrap()]).unwrap_err();
    assert!(matches!(error, StartError::NotAllowed { .. }), "{error}");
    assert!(matches!(with(globs, &["true"]), Err(StartError::NotAllowed { .. })));
}

pub(crate) fn without_init() {
    let exe = std::env::current_exe().unwrap();
    let output = Command::new(exe).arg("host-without-init").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("guard::init()"), "{text}");
}

pub(crate) fn resources() {
    let bench = Bench::new();
    let mut launch = bench.launch(sh("ulimit -n; ulimit -t; ulimit -v"));
    let limits = Limits { open_files: Some(64), cpu_seconds: Some(9), ..Limits::default() };
    launch.limits = Limits { memory_bytes: Some(1 << 30), ..limits };
    assert!(limits.unsupported().is_empty());
    let mut run = bench.runtime.block_on(start(&bench.guard, launch)).unwrap();
    assert_eq!(bench.wait(&mut run), Exit::Code(0));
    assert_eq!(bench.text(), "64\n9\n1048576\n");
}

pub(crate) fn child_environment() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let env = BTreeMap::from([("GIVEN".to_owned(), "1".to_owned()), ("LANG".to_owned(), "xx".to_owned())]);
    let spec = CommandSpec { env, cwd: Some(dir.path().into()), ..CommandSpec::new(["env"]) };
    assert_eq!(bench.run(spec), Exit::Code(0));
    let text = bench.text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PATH", "HOME", "TMPDIR"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "LANG", "LEASEHOLD_RUN_TOKEN", support::MARK], "{text}");
    assert!(text.contains("LANG=xx"));
    let spec = CommandSpec { cwd: Some(dir.path().into()), ..CommandSpec::new(["pwd"]) };
    bench.run(spec);
    assert_eq!(bench.text().trim(), dir.path().canonicalize().unwrap().to_str().unwrap());
}

pub(crate) fn signals_and_descriptors() {
    let bench = Bench::new();
    let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; \
                  echo; ps -o sid= -p $$; echo $$";
    assert_eq!(bench.run(sh(script)), Exit::Code(0));
    let text = bench.text();
    let mut lines = text.lines();
    for name in ["SigBlk", "SigIgn"] {
        let mask = lines.next().unwrap().strip_prefix(name).unwrap().trim_start_matches(":\t");
        // Above 31 are real-time signals, two of them the C library's own.
        assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff, 0, "{text}");
    }
    // The fourth is the directory that `ls` reads.
    assert_eq!(lines.next().unwrap().trim(), "0 1 2 3", "{text}");
    assert_eq!(lines.next().unwrap().trim(), lines.next().unwrap(), "own session: {text}");
    until("the run is gone", || support::marked(&bench.mark).is_empty());
}
