//! Starting, joining and ending.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Barrier;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::folder::Folder;
use super::super::stop::stop_within;
use super::super::{Error, Place, PrivateRedis, Running, Stopped, check_server, process, provide, stop};
use super::{DataFolder, Lines, TestResult, ask, installed, port_of, write_script};

/// A start gives a server that is usable, private to the user, and described.
#[test]
fn starts_a_server() -> TestResult {
    let folder = DataFolder::new()?;
    let reporter = Lines::new();
    let redis = PrivateRedis::start(&folder.path, &installed(), &reporter)?;
    assert!(!redis.joined());
    assert_eq!(ask(&redis, "PING")?, "+PONG");
    assert_eq!(redis.url(), format!("redis+unix://{}/r.sock", redis.folder().display()));
    let mode = fs::metadata(redis.folder().join("r.sock"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(check_server(&redis.address)?.redis_version.meets_floor());
    let description = redis.describe();
    for part in
        [format!("{}", redis.info().version), String::from("on PATH"), redis.folder().display().to_string()]
    {
        assert!(description.contains(&part), "{description}");
    }
    assert!(reporter.text().contains("redis: starting"), "{}", reporter.text());
    Ok(())
}

/// The server is not in our process group, so Ctrl-C does not reach it.
#[test]
fn server_leads_its_own_process_group() -> TestResult {
    let folder = DataFolder::new()?;
    let pid = i32::try_from(folder.start()?.info().process_id)?;
    assert_eq!(nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid)))?.as_raw(), pid);
    Ok(())
}

/// A second start on the folder joins, also after the first has been dropped.
#[test]
fn second_start_joins() -> TestResult {
    let folder = DataFolder::new()?;
    let first = folder.start()?;
    let pid = first.info().process_id;
    let second = folder.start()?;
    assert!(second.joined());
    assert_eq!(second.info().process_id, pid);
    assert_eq!(second.url(), first.url());
    assert!(second.describe().contains("already running"), "{}", second.describe());
    drop((first, second));
    assert_eq!(folder.start()?.info().process_id, pid);
    Ok(())
}

/// Eight starts at the same moment give one server.
#[test]
fn concurrent_starts_give_one_server() -> TestResult {
    let folder = DataFolder::new()?;
    let barrier = Barrier::new(8);
    let started: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    folder.start()
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let started = started.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(started.len(), 8);
    assert_eq!(started.iter().filter(|redis| !redis.joined()).count(), 1);
    let pid = started[0].info().process_id;
    assert!(started.iter().all(|redis| redis.info().process_id == pid));
    Ok(())
}

/// What was written is there after a stop and a start, and also after a kill.
#[test]
fn restart_keeps_data() -> TestResult {
    let folder = DataFolder::new()?;
    let redis = folder.start()?;
    assert_eq!(ask(&redis, "SET kept yes")?, "+OK");
    let pid = redis.info().process_id;
    assert_eq!(redis.stop(&Lines::new())?, Stopped::Terminated(pid));

    let redis = folder.start()?;
    assert!(!redis.joined());
    assert_eq!(ask(&redis, "GET kept")?, "yes");
    assert_eq!(ask(&redis, "SET kept still")?, "+OK");
    process::send(redis.info().process_id, Signal::SIGKILL)?;
    let mut redis = redis;
    if let Some(child) = &mut redis.child {
        child.wait()?;
    }

    let redis = folder.start()?;
    assert!(!redis.joined());
    assert_eq!(ask(&redis, "GET kept")?, "still");
    Ok(())
}

/// A stop ends the process, tidies up, and is repeatable; so it is without any folder.
#[test]
fn stop_leaves_nothing_running() -> TestResult {
    let folder = DataFolder::new()?;
    assert_eq!(stop(&folder.path, &Lines::new())?, Stopped::NotRunning);
    assert!(!folder.path.exists());
    let redis = folder.start()?;
    let pid = redis.info().process_id;
    assert_eq!(stop(&folder.path, &Lines::new())?, Stopped::Terminated(pid));
    assert_eq!(process::started(pid), None);
    assert!(!folder.path.join("r.sock").exists());
    assert!(!folder.path.join("redis.json").exists());
    assert_eq!(stop(&folder.path, &Lines::new())?, Stopped::NotRunning);
    // The owner's own stop still waits for its child, and has nothing else to do.
    assert_eq!(redis.stop(&Lines::new())?, Stopped::NotRunning);
    Ok(())
}

/// A stopped process holds its data: nobody may start a second server on it, and `stop` gets rid of it.
#[test]
fn frozen_server_is_never_doubled() -> TestResult {
    let folder = DataFolder::new()?;
    let redis = folder.start()?;
    let pid = redis.info().process_id;
    process::send(pid, Signal::SIGSTOP)?;
    let place = Folder::create(&folder.path)?;
    let error = PrivateRedis::join(&place, Duration::from_millis(50)).err();
    assert!(matches!(error, Some(Error::Unresponsive { pid: Some(p), .. }) if p == pid), "{error:?}");
    let reporter = Lines::new();
    assert_eq!(stop_within(&folder.path, &reporter, Duration::from_millis(300))?, Stopped::Killed(pid));
    assert!(reporter.text().contains("killing it"), "{}", reporter.text());
    Ok(())
}

/// A record that names another process protects that process.
#[test]
fn stop_refuses_another_process() -> TestResult {
    let folder = DataFolder::new()?;
    let redis = folder.start()?;
    let path = folder.path.join("redis.json");
    let record = fs::read_to_string(&path)?;
    let ours = std::process::id().to_string();
    fs::write(&path, record.replace(&redis.info().process_id.to_string(), &ours))?;
    let error = stop(&folder.path, &Lines::new()).err();
    assert!(matches!(error, Some(Error::NotOurs { .. })), "{error:?}");
    fs::remove_file(&path)?;
    let error = stop(&folder.path, &Lines::new()).err();
    assert!(matches!(error, Some(Error::NotOurs { .. })), "{error:?}");
    assert_eq!(ask(&redis, "PING")?, "+PONG");
    fs::write(&path, record)?;
    Ok(())
}

/// A path that is too long for a socket gives a port, and everything else is the same.
#[test]
fn long_path_falls_back_to_tcp() -> TestResult {
    let folder = DataFolder::named(&"long-".repeat(24))?;
    let redis = folder.start()?;
    let port = port_of(&redis.address).ok_or("a port was expected")?;
    assert_ne!(port, 6379);
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{port}"));
    assert_eq!(ask(&redis, "SET kept yes")?, "+OK");
    let second = folder.start()?;
    assert!(second.joined());
    assert_eq!(second.url(), redis.url());
    let pid = redis.info().process_id;
    assert_eq!(redis.stop(&Lines::new())?, Stopped::Terminated(pid));
    assert_eq!(ask(&folder.start()?, "GET kept")?, "yes");
    Ok(())
}

/// A port that another process takes between our look and the bind costs one more attempt.
#[test]
fn taken_port_is_tried_again() -> TestResult {
    let folder = DataFolder::named(&"long-".repeat(24))?;
    fs::create_dir(&folder.path)?;
    let script = folder.path.join("server");
    write_script(
        &script,
        "#!/bin/sh\n[ \"$1\" = --version ] || [ -e tried ] || { touch tried; \
         echo 'Warning: Could not create server TCP listening socket 127.0.0.1:1: bind: Address already in use'; \
         exit 1; }\nexec redis-server \"$@\"\n",
    )?;
    let mut env = installed();
    env.redis_server = Some(script.into());
    let redis = PrivateRedis::start(&folder.path, &env, &Lines::new())?;
    assert!(folder.path.join("tried").exists());
    assert_eq!(ask(&redis, "PING")?, "+PONG");
    Ok(())
}

/// A folder name may hold what a shell, a URL or Redis's own option parser would trip over.
#[test]
fn odd_folder_names_work() -> TestResult {
    let folder = DataFolder::named("a 'b' \"c\" %20 #d")?;
    let redis = folder.start()?;
    assert_eq!(ask(&redis, "PING")?, "+PONG");
    assert!(redis.url().ends_with("/a%20%27b%27%20%22c%22%20%2520%20%23d/r.sock"), "{}", redis.url());
    Ok(())
}

/// A socket left behind by a server that is gone does not count.
#[test]
fn stale_socket_is_replaced() -> TestResult {
    let folder = DataFolder::new()?;
    fs::create_dir(&folder.path)?;
    drop(std::os::unix::net::UnixListener::bind(folder.path.join("r.sock"))?);
    assert!(!folder.start()?.joined());
    Ok(())
}

/// A socket that somebody else listens on is neither used nor replaced.
#[test]
fn strange_socket_is_left_alone() -> TestResult {
    let folder = DataFolder::new()?;
    fs::create_dir(&folder.path)?;
    let listener = std::os::unix::net::UnixListener::bind(folder.path.join("r.sock"))?;
    for error in [folder.start().err(), stop(&folder.path, &Lines::new()).err()] {
        assert!(matches!(error, Some(Error::NotOurs { .. })), "{error:?}");
    }
    drop(listener);
    Ok(())
}

/// A server that ends at once is reported with the end of its log, and leaves nothing behind.
#[test]
fn failed_start_shows_the_log() -> TestResult {
    let folder = DataFolder::new()?;
    fs::create_dir(&folder.path)?;
    let script = folder.path.join("server");
    write_script(
        &script,
        "#!/bin/sh\ncase \"$1\" in --version) echo 'Redis server v=7.2.0 sha=0';; *) printf 'no luck\\033 today\\n'; exit 3;; esac\n",
    )?;
    let mut env = installed();
    env.redis_server = Some(script.into());
    let error =
        PrivateRedis::start(&folder.path, &env, &Lines::new()).err().ok_or("a failure was expected")?;
    let text = error.to_string();
    assert!(text.contains("exit status: 3") && text.contains("no luck\u{fffd} today"), "{text}");
    assert!(!folder.path.join("redis.json").exists());
    Ok(())
}

/// A wrapper that does not become the server is refused, since ending it would leave the server behind.
#[test]
fn wrapper_without_exec_is_refused() -> TestResult {
    let folder = DataFolder::new()?;
    fs::create_dir(&folder.path)?;
    let script = folder.path.join("server");
    write_script(&script, "#!/bin/sh\nredis-server \"$@\"\nexit $?\n")?;
    let mut env = installed();
    env.redis_server = Some(script.into());
    let error =
        PrivateRedis::start(&folder.path, &env, &Lines::new()).err().ok_or("a failure was expected")?;
    assert!(error.to_string().contains("let the wrapper use exec"), "{error}");
    assert_eq!(stop(&folder.path, &Lines::new())?, Stopped::NotRunning);
    Ok(())
}

/// The folder of a demo goes with its server, and not before.
#[test]
fn temporary_folder_goes_with_its_server() -> TestResult {
    let running = provide(&Place::Temporary, &installed(), &Lines::new())?;
    let Running::Private(redis) = running else { return Err("a private server was expected".into()) };
    let path = redis.folder();
    drop(redis);
    let again = PrivateRedis::start(&path, &installed(), &Lines::new())?;
    assert!(again.joined());
    again.stop(&Lines::new())?;
    assert!(path.exists());
    fs::remove_dir_all(&path)?;

    let redis = provide(&Place::Temporary, &installed(), &Lines::new())?;
    let Running::Private(private) = &redis else { return Err("a private server was expected".into()) };
    let path = private.folder();
    redis.stop(&Lines::new())?;
    assert!(!path.exists());
    Ok(())
}

/// A server whose folder was removed still ends with its owner.
#[test]
fn removed_folder_does_not_hide_the_server() -> TestResult {
    let folder = DataFolder::new()?;
    let redis = folder.start()?;
    let pid = redis.info().process_id;
    fs::remove_dir_all(&folder.path)?;
    assert!(matches!(redis.stop(&Lines::new())?, Stopped::Terminated(p) | Stopped::Killed(p) if p == pid));
    assert_eq!(process::started(pid), None);
    Ok(())
}
