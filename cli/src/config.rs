//! The settings: one documented struct, checked once at start with all problems in one message.

mod dev_server;
mod layers;

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum as _;
use leasehold_common::Error as Protocol;
use leasehold_common::limits::{Limits, MOST};
use leasehold_common::name::{Namespace, WorkerName};
use leasehold_common::policy::{OnLeaseExpired, Policy};
use leasehold_common::store::{QueueSettings, Store};
use leasehold_common::time::{MAX_DURATION, display_duration, parse_duration};
use leasehold_common::transport::ConnectOptions;

pub(crate) use dev_server::FOLDER as DEV_FOLDER;
pub(crate) use layers::{Setting, Source, variable};

use crate::args::values::{self, RunTimeout};
use crate::args::{Globals, LogFormat};
use crate::error::Result;
use layers::Layers;

/// Where Redis is, if nobody says.
const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

/// The variables that name a Redis, the stronger one first.
const URL_VARIABLES: [&str; 2] = ["LEASEHOLD_REDIS_URL", "REDIS_URL"];

/// Bounds of tasks that name none, as `enqueue` or `exec` sets them.
#[derive(Debug, Clone)]
pub(crate) struct TaskSettings {
    /// How many failures end a task: 1 to 10,000. Defaults to 5 for `enqueue`, 1 for `exec`.
    pub(crate) max_attempts: Setting<u32>,
    /// How often a task may lose its worker: 0 to 10,000. Defaults to 3.
    pub(crate) max_reclaims: Setting<u32>,
    /// What happens when its worker died: requeue or fail. Defaults to requeue.
    pub(crate) on_lease_expired: Setting<OnLeaseExpired>,
    /// How long one run may take: 1 ms to 10 years, or none. Defaults to 24 h.
    pub(crate) run_timeout: Setting<RunTimeout>,
    /// Between TERM (or cancellation) and KILL: 0 to 10 years. Defaults to 30 s.
    pub(crate) stop_grace: Setting<Duration>,
}

/// What a worker does unless its flags say otherwise.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSettings {
    /// Its name. Defaults to the host's.
    pub(crate) name: Setting<Option<WorkerName>>,
    /// The lease T that a new queue gets: 1 s to 10 min. Defaults to 15 s.
    pub(crate) lease: Setting<Duration>,
    /// Tasks at once over all queues: 1 to 10,000. Defaults to the sum of its queues' slots.
    pub(crate) slots: Setting<Option<usize>>,
    /// How long a stopping worker lets its runs finish: 0 to 24 h. Defaults to 25 s.
    pub(crate) drain_grace: Setting<Duration>,
    /// How long each cleanup of a handler may take: 0 to 10 min. Defaults to 5 s.
    pub(crate) cleanup_timeout: Setting<Duration>,
}

/// How often a reaper looks.
#[derive(Debug, Clone)]
pub(crate) struct ReaperSettings {
    /// The longest pause between two sweeps of a queue: 50 ms to 1 s. Defaults to 1 s.
    pub(crate) sweep_every: Setting<Duration>,
    /// The pause between two removals of what is past its retention: 1 s to 1 day. Defaults to 60 s.
    pub(crate) cleanup_every: Setting<Duration>,
}

/// How long ended tasks stay, for queues that are registered from here.
#[derive(Debug, Clone)]
pub(crate) struct RetentionSettings {
    /// 0 to 10 years. Defaults to 7 days; 0 = discarded when it ends.
    pub(crate) completed: Setting<Duration>,
    /// 0 to 10 years. Defaults to 14 days.
    pub(crate) failed: Setting<Duration>,
    /// 0 to 10 years. Defaults to 14 days.
    pub(crate) timed_out: Setting<Duration>,
    /// 0 to 10 years. Defaults to 3 days.
    pub(crate) aborted: Setting<Duration>,
}

/// Sizes in bytes; over them a value is refused before Redis is touched.
#[derive(Debug, Clone)]
pub(crate) struct LimitSettings {
    /// Of a payload: 1 to 16777216. Defaults to 1048576.
    pub(crate) payload: Setting<usize>,
    /// Of a result: 1 to 16777216. Defaults to 1048576.
    pub(crate) result: Setting<usize>,
}

/// Every setting with its source.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Redis. Defaults to the dev server of `./.leasehold`, else `redis://127.0.0.1:6379`.
    pub(crate) redis_url: Setting<String>,
    /// First part of every key. Defaults to `lh`.
    pub(crate) namespace: Setting<Namespace>,
    /// How logs are written: text or json. Defaults to text.
    pub(crate) log_format: Setting<LogFormat>,
    /// Of `enqueue`.
    pub(crate) enqueue: TaskSettings,
    /// Of `exec`.
    pub(crate) exec: TaskSettings,
    /// Of `worker` and `dev`.
    pub(crate) worker: WorkerSettings,
    /// Of `reaper`, `dev` and `worker --with-reaper`.
    pub(crate) reaper: ReaperSettings,
    /// Of queues.
    pub(crate) retention: RetentionSettings,
    /// Of sizes.
    pub(crate) limits: LimitSettings,
}

/// One line of `config show`.
pub(crate) struct Row {
    /// As the file spells it.
    pub(crate) key: &'static str,
    /// As a person reads it.
    pub(crate) value: String,
    /// Where it comes from.
    pub(crate) source: Source,
}

impl Settings {
    /// Reads them for this process.
    pub(crate) fn load(globals: &Globals) -> Result<Self> {
        Self::read(globals, Path::new("."), &|name| {
            std::env::var_os(name).map(|v| v.to_string_lossy().into_owned())
        })
    }

    fn read(globals: &Globals, folder: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut l = Layers::read(folder, lookup)?;
        let settings = Self {
            redis_url: redis_url(&mut l, globals.redis_url.clone(), folder),
            namespace: l
                .get("namespace", globals.namespace.clone(), Namespace::default(), |t| Namespace::new(t)),
            log_format: l.get("log_format", globals.log_format, LogFormat::Text, |t| {
                LogFormat::from_str(t, false)
                    .map_err(|_| Protocol::invalid("log_format", "is not text or json"))
            }),
            enqueue: task_settings(&mut l, ENQUEUE_KEYS, &Policy::default()),
            exec: task_settings(&mut l, EXEC_KEYS, &Policy::command()),
            worker: WorkerSettings {
                name: l.get("worker.name", None, None, |t| WorkerName::new(t).map(Some)),
                lease: l.get("worker.lease", None, QueueSettings::default().lease, values::lease),
                slots: l.get("worker.slots", None, None, |t| values::slots(t).map(Some)),
                drain_grace: l.get("worker.drain_grace", None, Duration::from_secs(25), values::drain_grace),
                cleanup_timeout: l.get(
                    "worker.cleanup_timeout",
                    None,
                    Duration::from_secs(5),
                    values::cleanup_timeout,
                ),
            },
            reaper: reaper_settings(&mut l),
            retention: retention_settings(&mut l),
            limits: LimitSettings {
                payload: l.get("limits.payload", None, Limits::default().payload, size),
                result: l.get("limits.result", None, Limits::default().result, size),
            },
        };
        l.finish()?;
        Ok(settings)
    }

    /// All of them, in the order of the file.
    pub(crate) fn rows(&self) -> Result<Vec<Row>> {
        fn row<T>(key: &'static str, setting: &Setting<T>, show: impl Fn(&T) -> String) -> Row {
            Row { key, value: show(&setting.value), source: setting.source.clone() }
        }
        let duration = |d: &Duration| display_duration(*d);
        let optional = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let address = self.store(&self.redis_url.value)?.address().to_owned();
        let mut rows = vec![
            row("redis_url", &self.redis_url, |_| address.clone()),
            row("namespace", &self.namespace, ToString::to_string),
            row("log_format", &self.log_format, |f| format!("{f:?}").to_lowercase()),
        ];
        for (keys, task) in [(ENQUEUE_KEYS, &self.enqueue), (EXEC_KEYS, &self.exec)] {
            rows.push(row(keys[0], &task.max_attempts, ToString::to_string));
            rows.push(row(keys[1], &task.max_reclaims, ToString::to_string));
            rows.push(row(keys[2], &task.on_lease_expired, |o| format!("{o:?}").to_lowercase()));
            rows.push(row(keys[3], &task.run_timeout, |t| {
                t.0.map_or_else(|| "none".to_owned(), display_duration)
            }));
            rows.push(row(keys[4], &task.stop_grace, duration));
        }
        let (worker, keep, limits) = (&self.worker, &self.retention, &self.limits);
        rows.push(row("worker.name", &worker.name, |n| optional(n.as_ref().map(ToString::to_string))));
        rows.push(row("worker.lease", &worker.lease, duration));
        rows.push(row("worker.slots", &worker.slots, |n| optional(n.map(|n| n.to_string()))));
        rows.push(row("worker.drain_grace", &worker.drain_grace, duration));
        rows.push(row("worker.cleanup_timeout", &worker.cleanup_timeout, duration));
        rows.push(row("reaper.sweep_every", &self.reaper.sweep_every, duration));
        rows.push(row("reaper.cleanup_every", &self.reaper.cleanup_every, duration));
        rows.push(row("retention.completed", &keep.completed, duration));
        rows.push(row("retention.failed", &keep.failed, duration));
        rows.push(row("retention.timed_out", &keep.timed_out, duration));
        rows.push(row("retention.aborted", &keep.aborted, duration));
        rows.push(row("limits.payload", &limits.payload, ToString::to_string));
        rows.push(row("limits.result", &limits.result, ToString::to_string));
        Ok(rows)
    }

    /// What queues are registered with that are not yet.
    pub(crate) fn queue_settings(&self, lease: Duration) -> QueueSettings {
        QueueSettings {
            lease,
            retain_completed: self.retention.completed.value,
            retain_failed: self.retention.failed.value,
            retain_timed_out: self.retention.timed_out.value,
            retain_aborted: self.retention.aborted.value,
        }
    }

    /// Sizes, with the defaults where there is no setting.
    pub(crate) fn limits(&self) -> Limits {
        Limits { payload: self.limits.payload.value, result: self.limits.result.value, ..Limits::default() }
    }

    /// The store at `url` by these settings; nothing is connected yet.
    pub(crate) fn store(&self, url: &str) -> Result<Store> {
        let store = Store::open(url, self.namespace.value.clone(), ConnectOptions::default())?;
        Ok(store.with_settings(self.queue_settings(self.worker.lease.value)))
    }
}

/// The keys of [`TaskSettings`], in the order of its fields.
type TaskKeys = [&'static str; 5];
const ENQUEUE_KEYS: TaskKeys = [
    "enqueue.max_attempts",
    "enqueue.max_reclaims",
    "enqueue.on_lease_expired",
    "enqueue.run_timeout",
    "enqueue.stop_grace",
];
const EXEC_KEYS: TaskKeys = [
    "exec.max_attempts",
    "exec.max_reclaims",
    "exec.on_lease_expired",
    "exec.run_timeout",
    "exec.stop_grace",
];

fn task_settings(l: &mut Layers<'_>, keys: TaskKeys, policy: &Policy) -> TaskSettings {
    TaskSettings {
        max_attempts: l.get(keys[0], None, policy.max_attempts, values::max_attempts),
        max_reclaims: l.get(keys[1], None, policy.max_reclaims, values::max_reclaims),
        on_lease_expired: l.get(keys[2], None, policy.on_lease_expired, values::on_lease_expired),
        run_timeout: l.get(keys[3], None, RunTimeout(policy.run_timeout), str::parse::<RunTimeout>),
        stop_grace: l.get(keys[4], None, policy.stop_grace, values::stop_grace),
    }
}

fn reaper_settings(l: &mut Layers<'_>) -> ReaperSettings {
    let default = leasehold_reaper::Config::default();
    let (tick, second, day) =
        (Duration::from_millis(50), Duration::from_secs(1), Duration::from_secs(86_400));
    let sweep = |text: &str| parse_duration("sweep_every", text, tick, second);
    let cleanup = |text: &str| parse_duration("cleanup_every", text, second, day);
    ReaperSettings {
        sweep_every: l.get("reaper.sweep_every", None, default.sweep_every, sweep),
        cleanup_every: l.get("reaper.cleanup_every", None, default.cleanup_every, cleanup),
    }
}

fn retention_settings(l: &mut Layers<'_>) -> RetentionSettings {
    let default = QueueSettings::default();
    let age = |text: &str| parse_duration("retention", text, Duration::ZERO, MAX_DURATION);
    RetentionSettings {
        completed: l.get("retention.completed", None, default.retain_completed, age),
        failed: l.get("retention.failed", None, default.retain_failed, age),
        timed_out: l.get("retention.timed_out", None, default.retain_timed_out, age),
        aborted: l.get("retention.aborted", None, default.retain_aborted, age),
    }
}

fn size(text: &str) -> Result<usize, Protocol> {
    values::count("size in bytes", text, 1, MOST as u64).map(|n| n as usize)
}

/// Redis: flag, environment, file, a dev server here, the default.
fn redis_url(l: &mut Layers<'_>, flag: Option<String>, folder: &Path) -> Setting<String> {
    let found = l.find("redis_url", &URL_VARIABLES);
    if let Some(value) = flag {
        return Setting { value, source: Source::Flag };
    }
    if let Some((value, source)) = found {
        return Setting { value, source };
    }
    let dev = folder.join(dev_server::FOLDER);
    match dev_server::url(&dev) {
        Some(value) => Setting { value, source: Source::DevServer(dev) },
        None => Setting { value: DEFAULT_URL.to_owned(), source: Source::Default },
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::args::Globals;

    fn globals() -> Globals {
        Globals { redis_url: None, namespace: None, json: false, log_format: None, verbose: 0, quiet: false }
    }

    #[test]
    fn every_key_that_is_shown_is_read_and_the_other_way_round() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::read(&globals(), dir.path(), &|_| None).unwrap();
        let file: Vec<String> = settings
            .rows()
            .unwrap()
            .iter()
            .filter(|row| row.value != "-")
            .map(|row| format!("{} = {:?}\n", row.key, row.value))
            .collect();
        std::fs::write(dir.path().join("leasehold.toml"), file.concat()).unwrap();
        let again = Settings::read(&globals(), dir.path(), &|_| None).unwrap();
        for row in again.rows().unwrap().iter().filter(|row| row.value != "-") {
            assert!(row.source.to_string().starts_with("file "), "{} is not read", row.key);
        }
    }

    #[test]
    fn the_stronger_url_wins_and_passwords_stay_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let env = |name: &str| match name {
            "LEASEHOLD_REDIS_URL" => Some("redis://:secret@a:1".to_owned()),
            "REDIS_URL" => Some("redis://b:1".to_owned()),
            _ => None,
        };
        let settings = Settings::read(&globals(), dir.path(), &env).unwrap();
        assert_eq!(settings.redis_url.value, "redis://:secret@a:1");
        assert!(settings.rows().unwrap().iter().all(|row| !row.value.contains("secret")));
    }
}
