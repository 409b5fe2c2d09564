//! Lines of the log for operators, with targets of their own: a decision for each tool result, and each request that
//! changes policies.

use std::net::IpAddr;

use axum::http::StatusCode;
use lro_host::store::{Digest, Ulid};

use crate::metrics::{Observation, label};

/// The target of the decisions. They are of the level `info`: `--log warn,decision=info` shows them.
const DECISION: &str = "decision";

/// The target of the requests that change policies.
pub const ADMIN: &str = "admin";

/// A request that changes the policy of a tenant.
pub(crate) struct Asked<'a> {
    pub(crate) address: IpAddr,
    /// Such as `swap`.
    pub(crate) action: &'static str,
    pub(crate) tenant: &'a str,
    /// SHA-256 of the policy before it.
    pub(crate) before: Option<String>,
}

/// Logs what became of a tool result.
pub(crate) fn decided(
    observation: &Observation<'_>,
    session: Option<&str>,
    policy: Option<Digest>,
    offload: Option<Ulid>,
) {
    tracing::info!(
        target: DECISION,
        tenant = &*label(observation.tenant),
        session = session.map(|session| label(session).into_owned()),
        tool = &*label(observation.tool),
        verdict = observation.verdict,
        failure = observation.failure,
        bytes_in = observation.bytes_in,
        bytes_out = observation.bytes_out,
        tokens_saved = observation.tokens_saved,
        policy_micros = u64::try_from(observation.time.as_micros()).unwrap_or(u64::MAX),
        policy = policy.map(|digest| digest.to_string()),
        handle = offload.map(|id| id.to_string()),
        "decision"
    );
}

impl Asked<'_> {
    /// Logs the end of the request: the policy that is loaded now, or why it was refused.
    pub(crate) fn ended(self, after: Result<&str, (StatusCode, &str)>) {
        let Self { address, action, tenant, before } = self;
        let tenant = &*label(tenant);
        match after {
            Ok(after) => tracing::info!(target: ADMIN, %address, action, tenant, before, after, "policy change"),
            Err((status, error)) => {
                let status = status.as_u16();
                tracing::warn!(target: ADMIN, %address, action, tenant, before, status, error, "policy change refused");
            }
        }
    }
}

/// Logs a request to change policies without the admin token.
pub(crate) fn unauthorized(address: IpAddr, method: &str, path: &str) {
    tracing::warn!(target: ADMIN, %address, method, path = &*label(path), "request without the admin token");
}
