//! Shared by the attacks: low limits, the directories to attack, and their content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lro_host::filter::{Decision, Filter, Request};
use lro_host::mcp::{self, ToolResult};
use lro_host::policy::Policy;
use lro_host::sandbox::{CallError, Limits, Plan, Written};
use lro_host::settings::{FailureMode, PolicySettings};
use lro_host::store::Digest;
use lro_tests::{TENANT, always, call_of, filter_with, hostile_policy, offloaded};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tempfile::TempDir;

/// Low limits.
pub(crate) fn tight() -> Limits {
    Limits {
        wall_time: Duration::from_millis(250),
        memory_bytes: 8 << 20,
        written_bytes: 4 << 20,
        files: 16,
        open_files: 8,
        crossing_bytes: 1 << 20,
        log_bytes: 500,
        ..Limits::default()
    }
}

/// The tool result that is attacked.
pub(crate) fn result() -> ToolResult {
    let rows = vec![r#"{\"city\":\"Bern\",\"note\":null}"#; 200].join(",");
    ToolResult::parse(format!(r#"{{"content":[{{"type":"text","text":"[{rows}]"}}],"isError":false}}"#).into()).unwrap()
}

/// A request whose settings name the behaviour of a policy of `tests/policies`.
pub(crate) fn request(tenant: &str, behaviour: &str) -> Request {
    let settings = PolicySettings { custom: Some(behaviour.to_owned()), ..always() };
    Request { tenant: tenant.to_owned(), ..lro_tests::request(settings) }
}

/// A store with an offload of another tenant, in a directory with another file.
pub(crate) struct Place {
    root: TempDir,
    /// Publishes an offload here.
    pub(crate) filter: Filter,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().unwrap();
        std::fs::write(root.path().join("outside.txt"), "outside").unwrap();
        let filter = filter_with(hostile_policy(), &root.path().join("store"));
        for tenant in [TENANT, "other"] {
            offloaded(filter.apply(&request(tenant, "honest"), result().payload()));
        }
        Self { root, filter }
    }

    /// Runs one attack; returns the answer to the client.
    pub(crate) fn attack(
        &self,
        policy: &Policy,
        limits: &Limits,
        failure: FailureMode,
        behaviour: &str,
    ) -> (Decision, String) {
        let filter = Filter { slot: policy.clone().into(), limits: limits.clone(), failure, ..self.filter.clone() };
        let result = result();
        let decision = filter.apply(&request(TENANT, behaviour), result.payload());
        let answer = mcp::answer(&result, &decision.outcome);
        (decision, String::from_utf8(answer.to_vec()).unwrap())
    }

    /// All paths here with their content: files by digest.
    pub(crate) fn walk(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        walk(self.root.path(), &mut found);
        found
    }
}

fn walk(directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        let what = match (kind.is_dir(), kind.is_file()) {
            (true, _) => "directory".to_owned(),
            (_, true) => Digest::of(&std::fs::read(&path).unwrap()).to_string(),
            _ => format!("{kind:?}"),
        };
        found.insert(path.clone(), what);
        if kind.is_dir() {
            walk(&path, found);
        }
    }
}

/// Lets a policy of `tests/policies` write into a directory, without publishing.
pub(crate) fn write(policy: &Policy, limits: &Limits, behaviour: &str, directory: &Path) -> Result<Written, CallError> {
    let call = call_of(request(TENANT, behaviour));
    let plan = Plan { parts: Vec::new() };
    policy.prepared().write(limits, &call, result().payload(), &plan, directory).map(|(written, _)| written)
}

/// The attempts that a descriptor reports: action, target and outcome.
pub(crate) fn attempts(written: &Written) -> Vec<(String, String, String)> {
    let descriptor: serde_json::Value = serde_json::from_str(&written.descriptor.content).unwrap();
    serde_json::from_value(descriptor["attempts"].clone()).unwrap()
}

static MACHINE: RwLock<()> = RwLock::new(());

/// Held by a test that may run in parallel with others.
pub(crate) fn together() -> RwLockReadGuard<'static, ()> {
    MACHINE.read()
}

/// Held by a test that measures, so that nothing else runs in this process.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write()
}
