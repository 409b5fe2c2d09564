//! Compiled code: it never has a path that others could open, and none is run that this user's gateway did not write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use lro_tests::{component, version, wait_until};
use serde_json::json;
use tempfile::TempDir;

use crate::scripted::{Script, Setup};
use crate::support::{lro, path_text};

/// A user that owns nothing, as whom nobody runs the tests.
const NOBODY: u32 = 65534;

/// A place with a cache and a directory for temporary files.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        fs::create_dir(place.path("tmp")).unwrap();
        fs::write(place.path("input.json"), r#"{"items":[1,2,3]}"#).unwrap();
        fs::write(place.path("small.wasm"), component("examples/small.wasm")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cache(&self) -> PathBuf {
        self.path("cache/lro-filter-compiled")
    }

    /// A result through a policy, compiled or not, by a command of this umask. Without a policy, through one that compiles fast.
    fn command(&self, umask: &str, policy: Option<&Path>) -> Command {
        let small = self.path("small.wasm");
        let mut command = Command::new("sh");
        let script = "umask \"$0\" && exec \"$@\"";
        command.args(["-c", script, umask, &lro(), "--log", "warn", "--mode", "never", "offload"]);
        command.args(["--policy", &path_text(policy.unwrap_or(&small))]);
        command.arg(self.path("input.json"));
        command.env("XDG_CACHE_HOME", self.path("cache")).env("TMPDIR", self.path("tmp"));
        command.env("MCP_LRO_DIR", self.path("out"));
        command
    }

    fn run(&self, umask: &str, policy: Option<&Path>) -> String {
        Self::succeed(&mut self.command(umask, policy))
    }

    /// Panics unless bad code in a file of the cache is refused, and compiled again.
    fn refuses(&self, policy: Option<&Path>, path: &Path, bad: &[u8]) {
        fs::write(path, bad).unwrap();
        let errors = self.run("022", policy);
        assert!(errors.contains("it was not written by this user's gateway, or has changed"), "{errors}");
        assert_eq!(self.run("022", policy), "");
    }

    /// What a command says, which must succeed.
    fn succeed(command: &mut Command) -> String {
        let Output { status, stderr, stdout } = command.output().unwrap();
        let errors = String::from_utf8(stderr).unwrap();
        assert!(status.success() && !stdout.is_empty(), "{errors}");
        errors
    }

    /// Compiled code in the cache, and the file of each.
    fn code(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        let code = entries.filter(|path| path.extension().is_some_and(|end| end == "cwasm"));
        code.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    fn only_code(&self) -> (PathBuf, Vec<u8>) {
        let code = self.code();
        assert_eq!(code.len(), 1, "{:?}", code.keys());
        code.into_iter().next().unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

// Whatever the umask.
#[test]
fn compiled_code_is_nobody_elses() {
    for umask in ["000", "002", "077"] {
        let place = Place::new();
        assert_eq!(place.run(umask, None), "", "umask {umask}");
        let (path, _) = place.only_code();
        assert_eq!((mode(&place.cache()), mode(&path)), (0o700, 0o600), "umask {umask}");
        assert_eq!(mode(&place.cache().join(".code-key")), 0o600, "umask {umask}");
        assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0, "umask {umask}: temporary files");
    }
}

// A directory that is somebody else's, or that others may write to, is not used.
#[test]
fn a_cache_of_others_is_refused() {
    let place = Place::new();
    fs::create_dir_all(place.cache()).unwrap();
    for mode in [0o777, 0o770, 0o702] {
        fs::set_permissions(place.cache(), Permissions::from_mode(mode)).unwrap();
        let errors = place.run("022", None);
        assert!(errors.contains("others can write to it"), "mode {mode:o}: {errors}");
        assert_eq!(fs::read_dir(place.cache()).unwrap().count(), 0, "mode {mode:o}");
    }
    fs::set_permissions(place.cache(), Permissions::from_mode(0o755)).unwrap();
    match std::os::unix::fs::chown(place.cache(), Some(NOBODY), None) {
        Err(error) => println!("not tested: a foreign owner: {error}"),
        Ok(()) => assert!(place.run("022", None).contains("it belongs to another user")),
    }
}

// Code that was changed, that was put under another name, or that has no seal, does not run.
#[test]
fn code_that_was_not_written_here_does_not_run() {
    let place = Place::new();
    let other = place.path("other.wasm");
    fs::write(&other, version(1)).unwrap();
    place.run("022", Some(&other));
    let (_, foreign) = place.only_code();
    place.run("022", None);
    let (path, good) = place.code().into_iter().find(|(_, code)| *code != foreign).unwrap();
    let last = good.len() - 1;
    let changed = |at: usize| {
        let mut code = good.clone();
        code[at] ^= 1;
        code
    };
    let without_seal = good[32..].to_vec();
    for bad in [changed(0), changed(32), changed(last), good[..last].to_vec(), foreign, without_seal, Vec::new()] {
        place.refuses(None, &path, &bad);
    }
    // A key of somebody else's, or one that others know, is no key.
    fs::set_permissions(place.cache().join(".code-key"), Permissions::from_mode(0o644)).unwrap();
    assert!(place.run("022", None).contains("others have access to it"));
}

// Parts of 512 KiB are hashed apart.
#[test]
fn code_whose_parts_were_moved_does_not_run() {
    let place = Place::new();
    let policy = place.path("large.wasm");
    fs::write(&policy, component("lro_redact.wasm")).unwrap();
    place.run("022", Some(&policy));
    let (path, good) = place.only_code();
    let (seal, code) = good.split_at(32);
    let parts: Vec<&[u8]> = code.chunks(512 << 10).collect();
    let [first, second, rest @ .., last] = &parts[..] else { panic!("{} parts", parts.len()) };
    let swapped = [&[seal, second, first], rest, &[last]].concat().concat();
    let without_last = [&[seal, first, second], rest].concat().concat();
    let twice = [good.as_slice(), last].concat();
    for bad in [swapped, without_last, twice] {
        place.refuses(Some(&policy), &path, &bad);
    }
}

// A process that is killed while it compiles leaves nothing behind, and nothing waits for it.
#[test]
fn a_killed_compiler_leaves_nothing() {
    let place = Place::new();
    let slow = place.path("slow.wasm");
    fs::write(&slow, component("lro_redact.wasm")).unwrap();
    for _ in 0..3 {
        let mut command = place.command("022", Some(&slow));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let compiles = || {
            let children = format!("/proc/{0}/task/{0}/children", child.id());
            !fs::read_to_string(children).unwrap_or_default().trim().is_empty()
        };
        wait_until("a process that compiles", compiles);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    }
    let entries = fs::read_dir(place.cache()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = entries.filter(|name| name != ".code-key").collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(place.run("022", None), "");
}

// Two that write at the same time, as in two containers on one volume, do not meet in one file.
#[test]
fn many_can_keep_compiled_code_at_the_same_time() {
    let place = Place::new();
    let start = |_| place.command("022", None).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let children: Vec<_> = (0..6).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    place.only_code();
    let entries = fs::read_dir(place.cache()).unwrap().count();
    assert_eq!(entries, 2, "the code and the key");
}

// With room for two, the code that was used longest ago is removed, not what was written first.
#[test]
fn the_cache_of_compiled_code_stays_within_its_limit() {
    let place = Place::new();
    let policies = [1, 2, 3].map(|number| {
        let path = place.path(&format!("{number}.wasm"));
        fs::write(&path, version(number)).unwrap();
        path
    });
    let mut known = BTreeSet::new();
    let [first, second, third] = policies.each_ref().map(|policy| {
        place.run("022", Some(policy));
        place.code().into_keys().find(|path| known.insert(path.clone())).unwrap()
    });
    let room = 5 * fs::metadata(&third).unwrap().len() / 2;
    fs::remove_file(&third).unwrap();
    for (hours, path) in [(3, &first), (2, &second)] {
        let used = SystemTime::now() - Duration::from_secs(hours * 3600);
        File::options().write(true).open(path).unwrap().set_modified(used).unwrap();
    }
    let run = |policy: &Path, bytes: u64| {
        let mut command = place.command("022", Some(policy));
        Place::succeed(command.env("MCP_LRO_LOADING_COMPILE_CACHE_BYTES", bytes.to_string()));
        place.code().into_keys().collect::<BTreeSet<_>>()
    };
    // What only reads removes nothing.
    assert_eq!(run(&policies[0], 1), BTreeSet::from([first.clone(), second.clone()]));
    assert_eq!(run(&policies[2], room), BTreeSet::from([first, third]));
    assert_eq!(run(&policies[1], 1), BTreeSet::from([second]), "the new one is kept always");
}

// A session that offloads nothing does not load what answers questions, and one that does has it ready before the question.
#[test]
fn what_answers_questions_is_loaded_once_something_can_be_asked() {
    let place = Place::new();
    let (large, small) =
        (json!({"content": [{"type": "text", "text": "line\n".repeat(20_000)}]}), json!({"content": []}));
    let script = Script::new().call("large", large).call("small", small);
    let variables = [("XDG_CACHE_HOME", &*path_text(&place.path("cache")))];
    let mut gateway = script.start_with(&Setup { variables: &variables, ..Setup::default() });
    for _ in 0..3 {
        gateway.call("small", json!({}));
    }
    // That of the policy.
    place.only_code();
    gateway.call("large", json!({}));
    wait_until("the component for questions is compiled", || place.code().len() == 2);
}
