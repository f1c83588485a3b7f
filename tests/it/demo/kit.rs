//! Where a demo of a test runs, and how its summary is recomputed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_tests::{Leasehold, procfs};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A demo takes about 10 s on an idle machine, which that of the tests is not.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A folder to run in, one to work on, and one for everything temporary.
pub(crate) struct Stage {
    dir: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("lh-demo-").tempdir().unwrap();
        for folder in ["work", "files", "tmp"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    /// The folder that the demo runs in.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The folder that it works on.
    pub(crate) fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    /// Where everything temporary of the demo lies.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// `leasehold demo`, with temporary files in a folder of its own.
    pub(crate) fn demo(&self) -> Leasehold {
        Leasehold::without_redis().arg("demo").env("TMPDIR", self.temporary()).cwd(self.work())
    }

    /// Small files of these names.
    pub(crate) fn fill(&self, names: &[&str]) {
        for name in names {
            fs::write(self.files().join(name), name.repeat(1000)).unwrap();
        }
    }

    /// Names, sizes and kinds that a careless program stumbles over.
    pub(crate) fn fill_with_odd_names(&self) {
        let path = |name: &str| self.files().join(name);
        self.fill(&["a b.txt", "ü 名.txt", "-rf", "$(exit 1)'\"", "line\nend", "\u{1b}[2J", "*", ".hidden"]);
        fs::write(path("empty"), "").unwrap();
        let large: Vec<u8> =
            (0u32..1_500_000).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        fs::write(path("large.bin"), large).unwrap();
        fs::write(self.files().join(OsStr::from_bytes(b"\xff\xfe")), "no text").unwrap();
        for folder in ["sub/deep", "target", ".git"] {
            fs::create_dir_all(path(folder)).unwrap();
            fs::write(path(folder).join("file"), folder).unwrap();
        }
        File::create(path("too large")).unwrap().set_len(17 * 1024 * 1024).unwrap();
        symlink("large.bin", path("link")).unwrap();
        symlink("/etc", path("sub/etc")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(path("unreadable"), "x").unwrap();
        fs::set_permissions(path("unreadable"), fs::Permissions::from_mode(0o000)).unwrap();
    }

    pub(crate) fn summary(&self) -> Value {
        let path = self.work().join("target/demo/summary.json");
        serde_json::from_slice(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
            .unwrap()
    }

    /// Panics if a process or a temporary folder is there.
    #[track_caller]
    pub(crate) fn nothing_is_left(&self, summary: &Value) {
        let left = self.left();
        assert!(left.is_ok(), "{left:?}");
        if let Some(namespace) = summary["namespace"].as_str() {
            let marked = procfs::processes_with_env(namespace);
            assert!(marked.is_empty(), "{}", procfs::describe(&marked));
        }
    }

    /// What is left: processes that know of the temporary folder, and what lies in it.
    pub(crate) fn left(&self) -> Result<(), String> {
        let processes = procfs::processes_with_env(&format!("TMPDIR={}", self.temporary().display()));
        let files: Vec<PathBuf> =
            fs::read_dir(self.temporary()).unwrap().flatten().map(|e| e.path()).collect();
        if processes.is_empty() && files.is_empty() {
            return Ok(());
        }
        Err(format!("{}\n{files:?}", procfs::describe(&processes)))
    }
}

/// The element of a list whose `field` is `value`.
#[track_caller]
pub(crate) fn named<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|row| row[field] == value);
    found.unwrap_or_else(|| panic!("no {value} in {list}"))
}

/// Every number and every checksum of the summary, anew from the files and from the list of tasks.
#[track_caller]
pub(crate) fn recompute(stage: &Stage, summary: &Value) {
    let tasks = summary["tasks"].as_array().unwrap();
    let (mut states, mut verified, mut bytes) = (BTreeMap::<&str, usize>::new(), 0, 0);
    let mut listed = BTreeMap::new();
    for task in tasks {
        assert_eq!(task["state"], task["expected"], "{task}");
        *states.entry(task["state"].as_str().unwrap()).or_default() += 1;
        verified += usize::from(task["verified"] == true);
        if let Some(name) = task["file"].as_str() {
            let name = task["file_hex"].as_str().map_or_else(|| name.as_bytes().to_vec(), unhex);
            bytes += task["result"]["bytes"].as_u64().unwrap();
            let sums = (task["result"]["bytes"].clone(), task["result"]["sha256"].clone());
            assert_eq!(listed.insert(name, sums), None, "a file has one task: {task}");
            assert!(task["result"]["gzip_bytes"].as_u64().unwrap() >= 20, "{task}");
        }
    }
    let expected: BTreeMap<_, _> = files(stage)
        .into_iter()
        .map(|(name, content)| (name, (Value::from(content.len()), Value::from(sha256(&content)))))
        .collect();
    assert_eq!(listed, expected);

    let totals = &summary["totals"];
    assert_eq!(totals["tasks"], tasks.len());
    assert_eq!(totals["by_state"], serde_json::to_value(&states).unwrap());
    assert_eq!(summary["kept"], totals["by_state"]);
    assert_eq!((&totals["verified"], &totals["bytes"]), (&Value::from(verified), &Value::from(bytes)));
    let order = ["completed", "failed", "timed_out", "aborted"];
    assert!(states.keys().all(|state| order.contains(state)), "{states:?}");
    let counts: Vec<String> =
        order.iter().filter_map(|state| Some(format!("{} {state}", states.get(state)?))).collect();
    assert_eq!(summary["line"], format!("demo: {} tasks: {}", tasks.len(), counts.join(", ")));

    let reclaims = summary["reclaims"].as_array().unwrap();
    let took = |row: &Value| row["next_ms"].as_u64().unwrap() - row["killed_ms"].as_u64().unwrap();
    let times: Vec<u64> = reclaims.iter().map(took).collect();
    assert_eq!(totals["reclaim_ms"][0].as_u64(), times.iter().min().copied());
    assert_eq!(totals["reclaim_ms"][1].as_u64(), times.iter().max().copied());
    assert!(reclaims.iter().any(|row| row["id"] == "crash"), "{reclaims:?}");
    for row in reclaims {
        let task = named(&summary["tasks"], "id", row["id"].as_str().unwrap());
        assert!(task["attempt"].as_u64() > row["attempt"].as_u64() && task["reclaims"] != 0, "{task}");
        assert_ne!(row["next_worker"], row["worker"], "{row}");
    }
    assert_eq!((&summary["ok"], &summary["doctor"]["clean"]), (&true.into(), &true.into()));
}

/// The files that the demo must have worked on: regular ones that can be read, at most 16 MiB, by relative name.
fn files(stage: &Stage) -> BTreeMap<Vec<u8>, Vec<u8>> {
    fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
                collect(root, &path, found);
            } else if kind.is_file() && entry.metadata().unwrap().len() <= 16 * 1024 * 1024 {
                let mut content = Vec::new();
                let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut content));
                if read.is_ok() {
                    let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
                    found.insert(name, content);
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(&stage.files(), &stage.files(), &mut found);
    found
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
