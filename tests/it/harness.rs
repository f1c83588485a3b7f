//! The harness itself: a test can only be believed when its tools do what they say.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use leasehold_tests::checks::{Stay, keys, leaked_keys};
use leasehold_tests::{
    Direction, Effects, Fault, Leasehold, Matcher, Monitor, Proxy, RedisServer, eventually, eventually_async,
    procfs, stays,
};
use redis::AsyncTypedCommands;

const LIMIT: Duration = Duration::from_secs(10);

/// A client through the proxy that gives up soon.
fn client(proxy: &Proxy) -> redis::RedisResult<redis::Connection> {
    let limit = Duration::from_millis(300);
    let connection = redis::Client::open(proxy.url())?.get_connection_with_timeout(limit)?;
    connection.set_read_timeout(Some(limit))?;
    Ok(connection)
}

fn increment(connection: &mut redis::Connection) -> redis::RedisResult<i64> {
    redis::cmd("INCR").arg("n").query(connection)
}

#[test]
fn a_killed_server_comes_back_on_its_port_with_its_data() {
    let mut redis = RedisServer::builder().aof_always().start();
    redis.command::<()>(&["SET", "kept", "1"]);
    let (port, pid, digest) = (redis.port(), redis.pid(), redis.digest());
    redis.restart();
    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid(), pid);
    assert!(!procfs::is_running(pid));
    assert_eq!(redis.digest(), digest);
    redis.restart_empty();
    assert_eq!(redis.key_count(), 0);
    assert_eq!(redis.info("memory")["maxmemory_policy"], "noeviction");
}

#[test]
fn a_paused_server_answers_nobody_until_it_goes_on() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    redis.pause();
    assert_eq!(procfs::state(redis.pid()), Some('T'));
    assert!(redis::cmd("PING").exec(&mut connection).unwrap_err().is_timeout());
    redis.resume();
    assert_eq!(redis.cli(&["PING"]), "PONG");
}

#[test]
fn a_dropped_server_is_gone_even_when_paused() {
    let redis = RedisServer::start();
    let pid = redis.pid();
    redis.pause();
    drop(redis);
    assert!(!procfs::is_running(pid));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let panic = catch_unwind(|| RedisServer::builder().config("no-such-setting", "1").start()).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no redis server would start"), "{message}");
}

#[test]
fn the_digest_sees_a_changed_value_and_a_new_expiry() {
    let redis = RedisServer::start();
    redis.command::<()>(&["HSET", "h", "a", "1"]);
    let before = redis.digest();
    redis.command::<()>(&["HSET", "h", "a", "1"]);
    assert_eq!(redis.digest(), before);
    redis.command::<()>(&["PEXPIRE", "h", "100000"]);
    assert_ne!(redis.digest(), before);
}

#[test]
fn leaked_keys_are_those_that_stay_for_ever_and_are_not_known() {
    let redis = RedisServer::start();
    redis.command::<()>(&["SET", "lh:{q}:config", "1"]);
    redis.command::<()>(&["SET", "lh:{q}:task:1", "1"]);
    redis.command::<()>(&["SET", "lh:{q}:lease:1", "1", "PX", "50000"]);
    redis.command::<()>(&["SET", "other", "1"]);
    assert_eq!(leaked_keys(&redis, &["lh:{*}:config"]), ["lh:{q}:task:1"]);
    assert!(matches!(keys(&redis)["lh:{q}:lease:1"], Stay::Millis(1..=50_000)));
}

#[test]
fn statistics_and_clients_tell_who_did_what() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    redis::cmd("CLIENT").arg("SETNAME").arg("me").exec(&mut connection).unwrap();
    redis.reset_stats();
    increment(&mut connection).unwrap();
    increment(&mut connection).unwrap();
    assert_eq!(redis.command_stats()["incr"].calls, 2);
    assert!(redis.used_memory() > 100_000);
    let me = redis.clients().into_iter().find(|client| client.name == "me").unwrap();
    assert_eq!(me.last_command, "incr");
}

#[test]
fn the_monitor_counts_commands_by_client_and_scripts_apart() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    let monitor = Monitor::start(&redis);
    increment(&mut connection).unwrap();
    let script = "redis.call('SET', 'a', 'quoted \"b\"') return redis.call('GET', 'a')";
    redis::cmd("EVAL").arg(script).arg(0).exec(&mut connection).unwrap();
    let seen = monitor.seen();
    let by_script: Vec<_> = seen.iter().filter(|command| command.client.is_none()).collect();
    assert_eq!(by_script.len(), 2);
    assert_eq!(by_script[0].words, ["SET", "a", "quoted \"b\""]);
    assert_eq!(monitor.count_by_client().into_values().collect::<Vec<_>>(), [2]);
    monitor.clear();
    assert!(monitor.seen().is_empty());
}

#[test]
fn a_dropped_reply_leaves_the_effect_and_nothing_else() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let dropped = proxy.drop_reply_of(Matcher::command("incr"), 3);
    let mut connection = client(&proxy).unwrap();
    assert_eq!(increment(&mut connection).unwrap(), 1);
    assert_eq!(increment(&mut connection).unwrap(), 2);
    assert!(increment(&mut connection).unwrap_err().is_io_error());
    dropped.wait(LIMIT);
    assert_eq!(redis.cli(&["GET", "n"]), "3");
    assert_eq!(increment(&mut client(&proxy).unwrap()).unwrap(), 4, "a fault strikes once");
    assert_eq!(proxy.counters().by_command["INCR"], 4);
}

#[test]
fn a_dropped_request_has_no_effect() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    proxy.fault(Matcher::keyword("n"), 1, Fault::DropRequest);
    assert!(increment(&mut client(&proxy).unwrap()).is_err());
    assert_eq!(redis.key_count(), 0);
}

#[test]
fn a_pipeline_loses_the_dropped_reply_and_those_behind_it() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let sha: String = redis.command(&["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"]);
    let dropped = proxy.drop_reply_of(Matcher::script(&sha).and(Matcher::keyword("b")), 1);
    let mut pipeline = redis::pipe();
    for key in ["a", "b", "c"] {
        pipeline.cmd("EVALSHA").arg(&sha).arg(1).arg(key);
    }
    let replies = pipeline.query::<Vec<i64>>(&mut client(&proxy).unwrap());
    assert!(replies.is_err(), "{replies:?}");
    assert_eq!(dropped.times(), 1);
    let effects = eventually("the whole pipeline took effect", LIMIT, || match redis.key_count() {
        3 => Ok(3),
        other => Err(format!("{other} keys")),
    });
    assert_eq!(effects, 3);
    assert_eq!(proxy.counters().by_command[&format!("EVALSHA {sha}")], 3);
}

#[test]
fn a_held_reply_comes_late() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let hold = Duration::from_millis(150);
    let held = proxy.fault_every(Matcher::any().and(Matcher::command("INCR")), 2, Fault::HoldReply(hold));
    let mut connection = client(&proxy).unwrap();
    for round in 1..=4 {
        let sent = Instant::now();
        assert_eq!(increment(&mut connection).unwrap(), round);
        assert_eq!(sent.elapsed() >= hold, round % 2 == 0, "round {round}: {:?}", sent.elapsed());
    }
    assert_eq!(held.times(), 2);
}

#[test]
fn a_cut_refuses_until_healed_and_a_kick_does_not() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let mut connection = client(&proxy).unwrap();
    increment(&mut connection).unwrap();
    proxy.cut();
    assert!(increment(&mut connection).is_err());
    assert!(client(&proxy).and_then(|mut connection| increment(&mut connection)).is_err());
    proxy.heal();
    let mut connection = client(&proxy).unwrap();
    assert_eq!(increment(&mut connection).unwrap(), 2);
    proxy.kick();
    assert!(increment(&mut connection).is_err());
    assert_eq!(increment(&mut client(&proxy).unwrap()).unwrap(), 3);
}

#[test]
fn a_freeze_to_the_client_lets_requests_take_effect() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let mut connection = client(&proxy).unwrap();
    proxy.freeze(Direction::ToClient);
    assert!(increment(&mut connection).unwrap_err().is_timeout());
    assert_eq!(redis.cli(&["GET", "n"]), "1");
}

#[test]
fn a_freeze_to_the_server_holds_requests_back_until_healed() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let mut connection = client(&proxy).unwrap();
    proxy.freeze(Direction::ToServer);
    assert!(increment(&mut connection).unwrap_err().is_timeout());
    stays("nothing reaches the server", Duration::from_millis(100), || match redis.key_count() {
        0 => Ok(()),
        other => Err(format!("{other} keys")),
    });
    // The client stays connected: a half-open link, whose backlog arrives in the end.
    proxy.heal();
    eventually("the request arrives late", LIMIT, || match redis.cli(&["GET", "n"]).as_str() {
        "1" => Ok(()),
        other => Err(format!("n = {other:?}")),
    });
}

#[tokio::test]
async fn an_async_client_goes_through_a_delay() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let delay = Duration::from_millis(60);
    let client = redis::Client::open(proxy.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    proxy.delay(delay);
    let sent = Instant::now();
    connection.set("big", "x".repeat(300_000)).await.unwrap();
    assert!(sent.elapsed() >= 2 * delay, "both ways: {:?}", sent.elapsed());
    proxy.heal();
    let length = eventually_async("the value is there", LIMIT, async || {
        connection.strlen("big").await.map_err(|error| error.to_string())
    });
    assert_eq!(length.await, 300_000);
}

#[test]
fn subscriptions_pass_through_the_proxy() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let mut connection = client(&proxy).unwrap();
    let mut subscription = connection.as_pubsub();
    subscription.subscribe("news").unwrap();
    assert_eq!(redis.command::<i64>(&["PUBLISH", "news", "hello"]), 1);
    assert_eq!(subscription.get_message().unwrap().get_payload::<String>().unwrap(), "hello");
}

#[test]
fn effects_show_runs_overlaps_and_the_killed() {
    let effects = Effects::new();
    effects.note_start("a", 1);
    effects.note_start("b", 1);
    effects.note_start("a", 2);
    effects.note_end("a", 1);
    effects.note_end("a", 2);
    assert_eq!((effects.starts(), effects.ends(), effects.most_at_once()), (3, 2, 3));
    assert_eq!(effects.of("b").len(), 1);
    assert_eq!(effects.of("b")[0].end, None);
    assert_eq!(effects.overlaps().len(), 1);
    assert!(catch_unwind(|| effects.assert_no_overlap()).is_err());
}

#[test]
fn the_standard_body_writes_what_effects_read() {
    let effects = Effects::new();
    let status = std::process::Command::new("sh")
        .args(["-c", &Effects::body_around("exit_with() { return 3; }; exit_with")])
        .env(Effects::VARIABLE, effects.path())
        .envs([("LEASEHOLD_TASK_ID", "t"), ("LEASEHOLD_ATTEMPT", "1")])
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
    effects.assert_each_ran_once(&["t"]);
    assert_eq!(effects.exec_args(LIMIT)[..2], ["--env".to_owned(), effects.env()]);
}

#[test]
fn the_process_table_finds_descendants_and_marked_strangers() {
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let mut child = std::process::Command::new("sh")
        .args(["-c", "sleep 60 & setsid sleep 60 & wait"])
        .env("MARK", &mark)
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let found = eventually("sh and both sleeps are there", LIMIT, || {
        let marked = procfs::processes_with_env(&mark);
        let sleeping = marked.iter().filter(|pid| procfs::command_line(**pid).starts_with("sleep")).count();
        if sleeping == 2 { Ok(marked) } else { Err(procfs::describe(&marked)) }
    });
    assert_eq!(found.len(), 3);
    let descendants = procfs::descendants(pid);
    assert_eq!(descendants.len(), 2);
    assert!(descendants.iter().any(|sleep| procfs::stat(*sleep).unwrap().session == *sleep), "setsid");
    assert!(procfs::rss_bytes(pid) > 0 && procfs::peak_rss_bytes(pid) >= procfs::rss_bytes(pid));
    for pid in found {
        procfs::signal(pid, nix::sys::signal::Signal::SIGKILL);
    }
    child.wait().unwrap();
    assert!(!procfs::is_running(pid));
}

#[test]
fn a_deadline_that_passes_names_what_was_seen_last() {
    let panic = catch_unwind(|| {
        let mut looks = 0;
        eventually("the moon", Duration::from_millis(20), || -> Result<(), String> {
            looks += 1;
            Err(format!("look {looks}"))
        })
    });
    let message = panic.unwrap_err().downcast_ref::<String>().unwrap().clone();
    assert!(message.contains("the moon") && message.contains("last seen: look"), "{message}");
}

/// A shell in the place of `leasehold`: what [`leasehold_tests::Proc`] does with a child is the same for both.
fn shell(script: &str) -> Leasehold {
    Leasehold::other_program("sh", "redis://nowhere/").args(["-c", script])
}

#[test]
fn a_child_has_its_output_its_input_and_its_exit_code() {
    let script = "read word; echo \"$word $LEASEHOLD_REDIS_URL\"; echo oops >&2; exit 7";
    let finished = shell(script).stdin("hello\n").run().expect_code(7);
    assert_eq!(finished.line(), "hello redis://nowhere/");
    assert_eq!(finished.stderr, "oops\n");
    let finished = shell("kill -TERM $$").run();
    assert_eq!(finished.code(), 143);
    assert_eq!(shell("echo '{\"a\": [1]}'").run().success().json()["a"][0], 1);
}

#[test]
fn a_child_can_be_stopped_continued_and_terminated() {
    let mut child = shell("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done").spawn();
    child.wait_for_output("ready", LIMIT);
    child.stop();
    assert_eq!(procfs::state(child.pid()), Some('T'));
    child.cont();
    assert!(child.is_running());
    let finished = child.terminate(LIMIT).expect_code(5);
    assert_eq!(finished.stdout, "ready\nbye\n");
}

#[test]
fn a_dropped_child_takes_all_it_started_with_it() {
    let mut child = shell("sleep 60 & setsid sh -c 'sleep 60 & sleep 60' & echo ready; wait").spawn();
    child.wait_for_output("ready", LIMIT);
    let pid = child.pid();
    let started = eventually("sh, sh and three sleeps", LIMIT, || {
        let found = procfs::descendants(pid);
        if found.len() == 4 { Ok(found) } else { Err(procfs::describe(&found)) }
    });
    child.stop();
    drop(child);
    eventually("nothing of it runs", LIMIT, || {
        let left: Vec<i32> = started.iter().copied().filter(|pid| procfs::is_running(*pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(procfs::describe(&left)) }
    });
}
