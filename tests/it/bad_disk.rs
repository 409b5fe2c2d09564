//! Bad disks: a warning, and nothing left.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lro_tests::{TENANT, filter, offloaded, structured};
use tempfile::TempDir;

use crate::bad_input::{falls_back, large, plain};

/// Tells a child where to write.
const ROOT_VARIABLE: &str = "LRO_TEST_BAD_DISK_ROOT";

/// The process that two of the tests below start: on a full disk, and with a limit on the size of its files. It does nothing when it
/// runs as a test.
#[test]
fn child_on_a_bad_disk() {
    let Some(root) = std::env::var_os(ROOT_VARIABLE) else { return };
    let root = Path::new(&root);
    let filter = filter(root);
    let decision = filter.apply(&plain(), &large());
    let failure = decision.failure.as_ref().unwrap().to_string();
    assert!(failure.contains("space"), "{failure}");
    falls_back(decision, root);
    // The next, smaller call works.
    offloaded(filter.apply(&plain(), &structured(format!("[{}]", vec!["1"; 1000].join(",")))));
    println!("the child is done");
}

fn run_child(command: &mut Command, root: &Path) -> Result<(), String> {
    let output = command.env(ROOT_VARIABLE, root).output().map_err(|error| error.to_string())?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if output.status.success() && text.contains("the child is done") {
        Ok(())
    } else {
        Err(format!("{}: {text}", output.status))
    }
}

/// The arguments that run one of the children.
fn child(name: &str) -> [String; 4] {
    ["--exact", &format!("bad_disk::{name}"), "--nocapture", "--test-threads=1"].map(str::to_owned)
}

#[test]
fn a_full_disk_is_no_failure_of_the_call() {
    let root = TempDir::new().unwrap();
    let mount = format!("mount -t tmpfs -o size=8m,mode=700 tmpfs '{}'", root.path().display());
    if !Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: `unshare -rm` with a tmpfs does not work here");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
    run_child(command.args(child("child_on_a_bad_disk")), root.path()).unwrap();
}

/// The process that the test below starts, where the directory of the tenant cannot be written. It does nothing when it runs as a test.
#[test]
fn child_on_a_read_only_disk() {
    let Some(root) = std::env::var_os(ROOT_VARIABLE) else { return };
    let root = Path::new(&root);
    falls_back(filter(root).apply(&plain(), &large()), root);
    println!("the child is done");
}

#[test]
fn a_read_only_directory_is_no_failure_of_the_call() {
    let root = TempDir::new().unwrap();
    let tenant = root.path().join(TENANT);
    std::fs::create_dir(&tenant).unwrap();
    let mount = format!("mount -t tmpfs -o ro,mode=700 tmpfs '{}'", tenant.display());
    if Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output().is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        run_child(command.args(child("child_on_a_read_only_disk")), root.path()).unwrap();
    } else {
        println!("skipped: `unshare -rm` with a tmpfs does not work here");
    }
    std::fs::set_permissions(&tenant, std::fs::Permissions::from_mode(0o500)).unwrap();
    if std::fs::write(tenant.join("probe"), "").is_ok() {
        println!("skipped: modes do not stop this user");
        return;
    }
    falls_back(filter(root.path()).apply(&plain(), &large()), root.path());
}

// The signal is ignored here as the command `lro` does it.
#[test]
fn a_file_size_limit_is_no_failure_of_the_call() {
    if !Command::new("env").args(["--ignore-signal=XFSZ", "true"]).output().is_ok_and(|output| output.status.success())
    {
        println!("skipped: this `env` cannot ignore a signal");
        return;
    }
    let root = TempDir::new().unwrap();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=XFSZ", "prlimit", "--fsize=4000000"]).arg(std::env::current_exe().unwrap());
    run_child(command.args(child("child_on_a_bad_disk")), root.path()).unwrap();
}
