//! Changing policies while a gateway runs, at the address of the metrics. Whoever has the admin token may.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /policies` | the policies of all tenants, as a JSON array |
//! | `POST /policies/TENANT` | loads the component in the body; `?sha256=` pins it, the header `lro-signature` holds its minisign signature as base64 |
//! | `POST /policies/TENANT/swap?sha256=` | puts a policy that is known by its digest in the place of the current one |
//! | `POST /policies/TENANT/rollback` | the one before |
//! | `POST /policies/TENANT/reload` | reads the file of the tenant again |
//!
//! Answers are JSON: `{"outcome", "sha256", "version"}`, or `{"error"}` with the status 404 for what does not exist and 409 for
//! a policy that is refused; what served before goes on serving.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use base64::Engine;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::listener::guard::{bearer, json};
use lro_host::mcp::percent_decoded as decoded;
use lro_host::policy::{Digest, Loaded, Registry, RegistryError, Slot, SlotStatus, Source, TrialOutcome, TrialReport};
use lro_host::store::rfc3339;

/// Where policies are changed.
pub(crate) const PATH: &str = "/policies";

/// The header of a signature.
const SIGNATURE: &str = "lro-signature";

/// Longest time that an upload takes.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The policy of a tenant, as it is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// The tenant.
    pub tenant: String,
    /// Number of the version that serves; none when there is no good one.
    pub version: Option<u64>,
    /// Its SHA-256.
    pub sha256: Option<String>,
    /// When it took over, as in RFC 3339.
    pub loaded: Option<String>,
    /// Milliseconds for which it stays parked after repeated failures.
    pub parked_ms: Option<u64>,
    /// Versions that took over since the start.
    pub swaps: u64,
    /// Policies that were refused since the start.
    pub refusals: u64,
    /// Why the last one was refused, unless one took over since.
    pub refusal: Option<String>,
    /// The trial under way, else the last one.
    pub trial: Option<TrialStatus>,
}

/// A policy that runs, or ran, beside the one that serves.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrialStatus {
    /// Its SHA-256.
    pub sha256: String,
    /// Results on which both decided the same.
    pub same: u64,
    /// Results on which they differ.
    pub different: u64,
    /// Results with which it failed.
    pub failed: u64,
    /// Results that were not compared.
    pub skipped: u64,
    /// `running`, `promoted`, `dropped`, or `ended`.
    pub state: String,
    /// The first differences and failures: tool, and what differs.
    pub examples: Vec<(String, String)>,
}

/// What came of a change.
#[derive(Debug, Serialize, Deserialize)]
pub struct Change {
    /// `swapped`, `on-trial`, or `unchanged`.
    pub outcome: String,
    /// The policy.
    pub sha256: String,
    /// The version that serves; none for one on trial.
    pub version: Option<u64>,
}

/// Changes policies.
#[derive(Debug)]
pub(crate) struct Admin {
    registry: Arc<Registry>,
    token: Digest,
    component_bytes: usize,
}

/// What a request asks for.
enum Wish {
    Load { source: Source, pin: Option<Digest> },
    Swap(Digest),
    Rollback,
    Reload,
}

/// Why it is not fulfilled.
enum Failure {
    Request(StatusCode, String),
    Registry(RegistryError),
}

impl Admin {
    pub(crate) fn new(registry: Arc<Registry>, token: Digest, component_bytes: u64) -> Self {
        Self { registry, token, component_bytes: usize::try_from(component_bytes).unwrap_or(usize::MAX) }
    }

    /// Answers a request whose host and origin were checked.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        let digest = bearer(request.headers()).map(Sha256::digest);
        if !digest.is_some_and(|digest| bool::from(self.token.0.ct_eq(&digest))) {
            return error(StatusCode::UNAUTHORIZED, "the admin token is needed (gateway.admin-token)");
        }
        let path = request.uri().path().to_owned();
        let steps = path.strip_prefix(PATH).unwrap_or(&path).split('/').map(decoded);
        let Some(steps) = steps.collect::<Option<Vec<String>>>() else {
            return error(StatusCode::BAD_REQUEST, "the path is not percent-encoded UTF-8");
        };
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        match (request.method(), steps.as_slice()) {
            (&Method::GET, [""]) => answer(StatusCode::OK, &statuses(&self.registry)),
            (&Method::POST, ["", tenant]) => self.change(tenant, self.upload(request).await).await,
            (&Method::POST, ["", tenant, "swap"]) => self.change(tenant, swap(&request)).await,
            (&Method::POST, ["", tenant, "rollback"]) => self.change(tenant, Ok(Wish::Rollback)).await,
            (&Method::POST, ["", tenant, "reload"]) => self.change(tenant, Ok(Wish::Reload)).await,
            _ => error(
                StatusCode::NOT_FOUND,
                "there are GET /policies, and POST /policies/TENANT with a component, \
                /swap?sha256=, /rollback and /reload",
            ),
        }
    }

    async fn change(&self, tenant: &str, wish: Result<Wish, Failure>) -> Response {
        let changed = match wish {
            Ok(wish) => {
                let (registry, tenant) = (Arc::clone(&self.registry), tenant.to_owned());
                let fulfil = move || fulfil(&registry, &tenant, wish);
                match tokio::task::spawn_blocking(fulfil).await {
                    Ok(changed) => changed,
                    Err(lost) => Err(Failure::Request(StatusCode::INTERNAL_SERVER_ERROR, lost.to_string())),
                }
            }
            Err(failure) => Err(failure),
        };
        match changed {
            Ok(change) => answer(StatusCode::OK, &change),
            Err(Failure::Request(status, text)) => error(status, &text),
            Err(Failure::Registry(refused)) => {
                let status = match &refused {
                    RegistryError::Unknown(_) | RegistryError::NoEarlier(_) | RegistryError::UnknownDigest(_) => {
                        StatusCode::NOT_FOUND
                    }
                    RegistryError::Refused(_) => StatusCode::CONFLICT,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                error(status, &refused.to_string())
            }
        }
    }

    async fn upload(&self, request: Request) -> Result<Wish, Failure> {
        let pin = pinned(&request)?;
        let signature = request.headers().get(SIGNATURE).map(|value| {
            let decoded = base64::engine::general_purpose::STANDARD.decode(value.as_bytes()).ok();
            decoded.and_then(|text| String::from_utf8(text).ok()).ok_or_else(|| {
                Failure::Request(StatusCode::BAD_REQUEST, format!("the header `{SIGNATURE}` is not base64 of a text"))
            })
        });
        let signature = signature.transpose()?;
        let collected = Limited::new(request.into_body(), self.component_bytes).collect();
        let body = tokio::time::timeout(UPLOAD_TIMEOUT, collected).await;
        let body =
            body.map_err(|_| Failure::Request(StatusCode::REQUEST_TIMEOUT, "the body did not come in time".into()))?;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => Failure::Request(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a component larger than {} bytes (loading.component-bytes)", self.component_bytes),
            ),
            None => Failure::Request(StatusCode::BAD_REQUEST, format!("the body broke off: {error}")),
        })?;
        Ok(Wish::Load { source: Source { bytes: body.to_bytes().into(), signature }, pin })
    }
}

/// The policies of all tenants.
fn statuses(registry: &Registry) -> Vec<PolicyStatus> {
    registry.slots().iter().map(|(tenant, slot)| PolicyStatus::of(tenant, slot)).collect()
}

impl PolicyStatus {
    fn of(tenant: &str, slot: &Slot) -> Self {
        let SlotStatus { version, parked_for, loaded, refused, refusal, trial } = slot.status();
        Self {
            tenant: tenant.to_owned(),
            version: version.as_ref().map(|version| version.number),
            sha256: version.as_ref().map(|version| version.policy.digest().to_string()),
            loaded: version.as_ref().map(|version| rfc3339(version.loaded)),
            parked_ms: parked_for.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            swaps: loaded,
            refusals: refused,
            refusal,
            trial: trial.map(TrialStatus::from),
        }
    }
}

impl From<TrialReport> for TrialStatus {
    fn from(report: TrialReport) -> Self {
        let TrialReport { digest, same, different, failed, skipped, examples, outcome } = report;
        let state = match outcome {
            None => "running",
            Some(TrialOutcome::Promoted(_)) => "promoted",
            Some(TrialOutcome::Dropped) => "dropped",
            Some(TrialOutcome::Ended) => "ended",
        };
        let examples = examples.into_iter().map(|example| (example.tool, example.what)).collect();
        Self { sha256: digest.to_string(), same, different, failed, skipped, state: state.to_owned(), examples }
    }
}

fn swap(request: &Request) -> Result<Wish, Failure> {
    let missing = || Failure::Request(StatusCode::BAD_REQUEST, "the digest is missing: ?sha256=".to_owned());
    Ok(Wish::Swap(pinned(request)?.ok_or_else(missing)?))
}

/// The digest in the query of a request.
fn pinned(request: &Request) -> Result<Option<Digest>, Failure> {
    let pairs = request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let found = pairs.filter(|(name, _)| *name == "sha256").map(|(_, digest)| digest).next();
    let expected = || Failure::Request(StatusCode::BAD_REQUEST, "sha256: expected 64 hexadecimal digits".to_owned());
    found.map(|digest| format!("sha256:{digest}").parse().map_err(|_| expected())).transpose()
}

fn fulfil(registry: &Registry, tenant: &str, wish: Wish) -> Result<Change, Failure> {
    let changed = match wish {
        Wish::Load { source, pin } => registry.load(tenant, &source, pin),
        Wish::Swap(digest) => registry.swap(tenant, &digest),
        Wish::Rollback => registry.rollback(tenant),
        Wish::Reload => registry.reload_tenant(tenant),
    };
    changed.map(Change::from).map_err(Failure::Registry)
}

impl From<Loaded> for Change {
    fn from(loaded: Loaded) -> Self {
        let (outcome, digest, version) = match loaded {
            Loaded::Swapped(version) => ("swapped", *version.policy.digest(), Some(version.number)),
            Loaded::OnTrial(digest) => ("on-trial", digest, None),
            Loaded::Unchanged(version) => ("unchanged", *version.policy.digest(), Some(version.number)),
        };
        Self { outcome: outcome.to_owned(), sha256: digest.to_string(), version }
    }
}

fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    // Plain data with texts as keys always serializes.
    json(status, serde_json::to_vec(value).map(Body::from).unwrap_or_default())
}

fn error(status: StatusCode, text: &str) -> Response {
    answer(status, &serde_json::json!({ "error": text }))
}
