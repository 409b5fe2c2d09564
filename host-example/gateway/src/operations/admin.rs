//! The admin API, which changes policies while a gateway runs. It is served on the address of the metrics, to holders
//! of the admin token.
//!
//! | request | action |
//! |---|---|
//! | `GET /policies` | the policies of all tenants, as a JSON array |
//! | `POST /policies/TENANT` | loads the component in the body; `?sha256=` pins it, the header `lro-signature` has its minisign signature as base64 |
//! | `POST /policies/TENANT?reference=` | pulls the artifact `oci://…`, percent-encoded, from its registry, and loads it; a body is ignored |
//! | `POST /policies/TENANT/swap?sha256=` | replaces the current policy by the known one whose digest is, or begins with, these digits |
//! | `POST /policies/TENANT/rollback` | restores the previous policy |
//! | `POST /policies/TENANT/reload` | reloads the tenant's policy from its file or registry |
//!
//! With `allow-older=true` in its query, a load, swap or reload takes a version that is older than the current one, as
//! their signatures state it.
//!
//! Responses are JSON: `{"outcome", "sha256", "version"}`, or `{"error"}` with the status 404 for an unknown tenant or
//! policy and 409 for a refused policy or digits that several policies begin with. After an error, the current policy stays in use.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use base64::Engine;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use lro_host::mcp::percent_decoded as decoded;
use lro_host::policy::{
    Conditions, Digest, Loaded, Location, Registry, RegistryError, Slot, SlotStatus, Source, TrialOutcome, TrialReport,
};
use lro_host::store::rfc3339;
use lro_oci::Reference;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::trail::{self, Asked};
use crate::listener::guard::{bearer, json};

/// Path of the admin API.
pub const POLICIES_PATH: &str = "/policies";

/// The header that holds the minisign signature of a policy, as base64.
pub const SIGNATURE_HEADER: &str = "lro-signature";

/// Fewest digits of the SHA-256 of a known policy that name it.
const DIGEST_DIGITS_MIN: usize = 8;

/// Timeout of an upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The status of the policy of a tenant.
#[derive(Debug, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// The tenant.
    pub tenant: String,
    /// Number of the current version; `None` without a valid policy.
    pub version: Option<u64>,
    /// SHA-256 of the current version.
    pub sha256: Option<String>,
    /// When the current version was activated, as in RFC 3339.
    pub loaded: Option<String>,
    /// Remaining milliseconds for which the policy is parked after repeated failures.
    pub parked_ms: Option<u64>,
    /// Number of versions activated since the start.
    pub swaps: u64,
    /// Number of policies refused since the start.
    pub refusals: u64,
    /// Why the last policy was refused, unless another was activated since.
    pub refusal: Option<String>,
    /// The running trial, else the last one.
    pub trial: Option<TrialStatus>,
}

/// The status of a trial: a policy that runs, or ran, beside the current one.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrialStatus {
    /// SHA-256 of the policy on trial.
    pub sha256: String,
    /// Results on which both policies agreed.
    pub same: u64,
    /// Results on which the policies differed.
    pub different: u64,
    /// Results on which the policy on trial failed.
    pub failed: u64,
    /// Results that were not compared.
    pub skipped: u64,
    /// `running`, `promoted`, `dropped`, or `ended`.
    pub state: String,
    /// The first differences and failures: tool, and description.
    pub examples: Vec<(String, String)>,
}

/// The outcome of a change.
#[derive(Debug, Serialize, Deserialize)]
pub struct Change {
    /// `swapped`, `on-trial`, or `unchanged`.
    pub outcome: String,
    /// SHA-256 of the policy.
    pub sha256: String,
    /// The version now current; `None` for a policy on trial.
    pub version: Option<u64>,
}

/// Handles requests of the admin API.
#[derive(Debug)]
pub(crate) struct Admin {
    registry: Arc<Registry>,
    token: Digest,
    component_bytes: usize,
}

/// A requested change.
enum ChangeRequest {
    Load {
        source: Source,
        conditions: Conditions,
    },
    Pull {
        reference: Reference,
        conditions: Conditions,
    },
    /// To a policy that is known here, whose SHA-256 begins with these digits.
    Swap {
        digits: String,
        allow_older: bool,
    },
    Rollback,
    Reload(Conditions),
}

/// Why a change failed.
enum AdminError {
    Request(StatusCode, String),
    Registry(RegistryError),
}

impl Admin {
    pub(crate) fn new(registry: Arc<Registry>, token: Digest, component_bytes: u64) -> Self {
        Self { registry, token, component_bytes: usize::try_from(component_bytes).unwrap_or(usize::MAX) }
    }

    /// Answers a request. The host and the origin have been checked.
    pub(crate) async fn answer(&self, request: Request, address: IpAddr) -> Response {
        let digest = bearer(request.headers()).map(Sha256::digest);
        if !digest.is_some_and(|digest| bool::from(self.token.0.ct_eq(&digest))) {
            trail::unauthorized(address, request.method().as_str(), request.uri().path());
            let text = match digest {
                None => "the admin token is needed (gateway.admin-token)",
                Some(_) => "the token is another one than the admin token of this gateway (gateway.admin-token)",
            };
            return error(StatusCode::UNAUTHORIZED, text);
        }
        let path = request.uri().path().to_owned();
        let steps = path.strip_prefix(POLICIES_PATH).unwrap_or(&path).split('/').map(decoded);
        let Some(steps) = steps.collect::<Option<Vec<String>>>() else {
            return error(StatusCode::BAD_REQUEST, "the path is not percent-encoded UTF-8");
        };
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        match (request.method(), steps.as_slice()) {
            (&Method::GET, [""]) => answer(StatusCode::OK, &self.statuses()),
            (&Method::POST, ["", tenant]) => {
                let asked = self.asked(address, "load", tenant);
                self.change(asked, self.upload(request).await).await
            }
            (&Method::POST, ["", tenant, "swap"]) => {
                self.change(self.asked(address, "swap", tenant), swap(&request)).await
            }
            (&Method::POST, ["", tenant, "rollback"]) => {
                self.change(self.asked(address, "rollback", tenant), Ok(ChangeRequest::Rollback)).await
            }
            (&Method::POST, ["", tenant, "reload"]) => {
                self.change(self.asked(address, "reload", tenant), reload(&request)).await
            }
            _ => error(
                StatusCode::NOT_FOUND,
                "not found: use GET /policies, or POST /policies/TENANT with a component or ?reference=, \
                /swap?sha256=, /rollback or /reload",
            ),
        }
    }

    /// The policies of all tenants.
    pub(crate) fn statuses(&self) -> Vec<PolicyStatus> {
        self.registry.slots().iter().map(|(tenant, slot)| PolicyStatus::of(tenant, slot)).collect()
    }

    /// Changes a policy as a form asks: `swap` to a known digest, `rollback` or `reload`.
    pub(crate) async fn change_by_form(
        &self,
        address: IpAddr,
        action: &str,
        tenant: &str,
        sha256: &str,
    ) -> Result<Change, (StatusCode, String)> {
        let (action, request) = match action {
            "swap" => {
                let digits = Some(sha256).filter(|digits| begins_digest(digits));
                let missing = || bad_request("give 8 to 64 hexadecimal digits of the SHA-256 of a known policy");
                let digits = digits.ok_or_else(missing);
                ("swap", digits.map(|digits| ChangeRequest::Swap { digits: digits.to_owned(), allow_older: false }))
            }
            "rollback" => ("rollback", Ok(ChangeRequest::Rollback)),
            "reload" => ("reload", Ok(ChangeRequest::Reload(Conditions { pin: None, allow_older: false }))),
            _ => return Err((StatusCode::BAD_REQUEST, "the action is not known".to_owned())),
        };
        self.changed(self.asked(address, action, tenant), request).await
    }

    fn asked<'a>(&self, address: IpAddr, action: &'static str, tenant: &'a str) -> Asked<'a> {
        let version = self.registry.slot(tenant).and_then(|slot| slot.current());
        let before = version.map(|version| version.policy.digest().to_string());
        Asked { address, action, tenant, before }
    }

    async fn change(&self, asked: Asked<'_>, request: Result<ChangeRequest, AdminError>) -> Response {
        match self.changed(asked, request).await {
            Ok(change) => answer(StatusCode::OK, &change),
            Err((status, text)) => error(status, &text),
        }
    }

    async fn changed(
        &self,
        asked: Asked<'_>,
        request: Result<ChangeRequest, AdminError>,
    ) -> Result<Change, (StatusCode, String)> {
        let changed = match request {
            Ok(request) => {
                let (registry, tenant) = (Arc::clone(&self.registry), asked.tenant.to_owned());
                let change = move || apply(&registry, &tenant, request);
                match tokio::task::spawn_blocking(change).await {
                    Ok(changed) => changed,
                    Err(error) => Err(AdminError::Request(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
                }
            }
            Err(failure) => Err(failure),
        };
        let (status, text) = match changed {
            Ok(change) => {
                asked.ended(Ok(&change.sha256));
                return Ok(change);
            }
            Err(AdminError::Request(status, text)) => (status, text),
            Err(AdminError::Registry(refused)) => {
                let status = match &refused {
                    RegistryError::Unknown(_)
                    | RegistryError::NoEarlier(_)
                    | RegistryError::NotKept(_)
                    | RegistryError::UnknownBeginning(_)
                    | RegistryError::UnknownDigest(_) => StatusCode::NOT_FOUND,
                    RegistryError::Refused(_) | RegistryError::Ambiguous(_) => StatusCode::CONFLICT,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                (status, refused.to_string())
            }
        };
        asked.ended(Err((status, &text)));
        Err((status, text))
    }

    async fn upload(&self, request: Request) -> Result<ChangeRequest, AdminError> {
        let conditions = conditions(&request)?;
        if let Some(encoded) = member(&request, "reference") {
            let text = decoded(encoded).ok_or_else(|| bad_request("reference: it is not percent-encoded UTF-8"))?;
            let reference = text.parse().map_err(|error| bad_request(format!("reference: {error}")))?;
            return Ok(ChangeRequest::Pull { reference, conditions });
        }
        let signature = request.headers().get(SIGNATURE_HEADER).map(|value| {
            let decoded = base64::engine::general_purpose::STANDARD.decode(value.as_bytes()).ok();
            decoded.and_then(|text| String::from_utf8(text).ok()).ok_or_else(|| {
                AdminError::Request(
                    StatusCode::BAD_REQUEST,
                    format!("the header `{SIGNATURE_HEADER}` is not base64 of UTF-8 text"),
                )
            })
        });
        let signature = signature.transpose()?;
        let collected = Limited::new(request.into_body(), self.component_bytes).collect();
        let body = tokio::time::timeout(UPLOAD_TIMEOUT, collected).await;
        let body = body
            .map_err(|_| AdminError::Request(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".into()))?;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => AdminError::Request(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the component is larger than {} bytes (loading.component-bytes)", self.component_bytes),
            ),
            None => AdminError::Request(StatusCode::BAD_REQUEST, format!("the body is incomplete: {error}")),
        })?;
        Ok(ChangeRequest::Load { source: Source { bytes: body.to_bytes().into(), signature }, conditions })
    }
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

fn swap(request: &Request) -> Result<ChangeRequest, AdminError> {
    let missing = || bad_request("the digest is missing: add ?sha256= with 8 to 64 hexadecimal digits");
    let digits = member(request, "sha256").filter(|digits| begins_digest(digits)).ok_or_else(missing)?;
    Ok(ChangeRequest::Swap { digits: digits.to_owned(), allow_older: allow_older(request)? })
}

fn reload(request: &Request) -> Result<ChangeRequest, AdminError> {
    conditions(request).map(ChangeRequest::Reload)
}

/// The conditions in the query of the URL.
fn conditions(request: &Request) -> Result<Conditions, AdminError> {
    let wrong = |_| bad_request("sha256: expected 64 hexadecimal digits");
    let pin = member(request, "sha256").map(|digest| format!("sha256:{digest}").parse().map_err(wrong));
    Ok(Conditions { pin: pin.transpose()?, allow_older: allow_older(request)? })
}

fn allow_older(request: &Request) -> Result<bool, AdminError> {
    match member(request, "allow-older") {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(bad_request("allow-older: expected `true` or `false`")),
    }
}

fn bad_request(text: impl Into<String>) -> AdminError {
    AdminError::Request(StatusCode::BAD_REQUEST, text.into())
}

/// Whether a SHA-256 may begin with these hexadecimal digits, and they are enough to name a known policy: 8 to 64.
pub fn begins_digest(digits: &str) -> bool {
    (DIGEST_DIGITS_MIN..=64).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// A member of the query of the URL.
fn member<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut pairs = request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

fn apply(registry: &Registry, tenant: &str, request: ChangeRequest) -> Result<Change, AdminError> {
    let changed = match request {
        ChangeRequest::Load { source, conditions } => registry.load(tenant, &source, conditions),
        ChangeRequest::Pull { reference, conditions } => {
            registry.load_from(tenant, &Location::Remote(reference.to_string()), conditions)
        }
        ChangeRequest::Swap { digits, allow_older } => {
            registry.known_digest(&digits).and_then(|digest| registry.swap(tenant, &digest, allow_older))
        }
        ChangeRequest::Rollback => registry.rollback(tenant),
        ChangeRequest::Reload(conditions) => registry.reload_tenant(tenant, conditions),
    };
    changed.map(Change::from).map_err(AdminError::Registry)
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
    // Structs with string keys always serialize.
    json(status, serde_json::to_vec(value).map(Body::from).unwrap_or_default())
}

fn error(status: StatusCode, text: &str) -> Response {
    answer(status, &serde_json::json!({ "error": text }))
}
