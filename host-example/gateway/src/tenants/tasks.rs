//! The tasks of servers: the tool behind each, and the reply to its result, so that reading a result twice makes one
//! offload.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use lro_host::store::Ulid;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::session::Asked;

/// Maximum number of tasks. The oldest is evicted first; its result is then offloaded once more.
pub(crate) const TASKS_MAX: usize = 4_096;

/// The call behind a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskCall {
    pub(crate) tool: String,
    /// The arguments as JSON.
    pub(crate) query: Option<String>,
    /// The question about the result.
    pub(crate) asked: Option<Asked>,
}

/// One task of a tenant.
#[derive(Clone, Debug, Default)]
struct Task {
    call: TaskCall,
    answer: Option<TaskAnswer>,
}

/// The reply to the result of a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskAnswer {
    /// SHA-256 of the result.
    pub(crate) digest: [u8; 32],
    /// The offload, which may have expired.
    pub(crate) offload: Ulid,
    /// The result object sent to the client.
    pub(crate) result: Bytes,
}

/// The tasks of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<TaskTable>);

#[derive(Debug, Default)]
struct TaskTable {
    tasks: BTreeMap<(String, String), Task>,
    order: VecDeque<(String, String)>,
}

impl Tasks {
    /// Records the call behind a task.
    pub(crate) fn started(&self, tenant: &str, task: &str, call: TaskCall) {
        self.with(tenant, task, |task| task.call = call);
    }

    /// The call behind a task; empty if the task is unknown.
    pub(crate) fn call(&self, tenant: &str, task: &str) -> TaskCall {
        let key = (tenant.to_owned(), task.to_owned());
        let table = self.0.lock();
        table.tasks.get(&key).map(|task| task.call.clone()).unwrap_or_default()
    }

    /// The earlier reply to this result of a task.
    pub(crate) fn answer(&self, tenant: &str, task: &str, digest: &[u8; 32]) -> Option<TaskAnswer> {
        let key = (tenant.to_owned(), task.to_owned());
        let table = self.0.lock();
        table.tasks.get(&key)?.answer.clone().filter(|answer| answer.digest == *digest)
    }

    /// Records the reply to the result of a task.
    pub(crate) fn answered(&self, tenant: &str, task: &str, answer: TaskAnswer) {
        self.with(tenant, task, |task| task.answer = Some(answer));
    }

    fn with(&self, tenant: &str, task: &str, change: impl FnOnce(&mut Task)) {
        let key = (tenant.to_owned(), task.to_owned());
        let mut table = self.0.lock();
        if !table.tasks.contains_key(&key) {
            table.order.push_back(key.clone());
            if table.order.len() > TASKS_MAX
                && let Some(oldest) = table.order.pop_front()
            {
                table.tasks.remove(&oldest);
            }
        }
        change(table.tasks.entry(key).or_default());
    }
}

/// The SHA-256 of a result.
pub(crate) fn digest(result: &[u8]) -> [u8; 32] {
    Sha256::digest(result).into()
}
