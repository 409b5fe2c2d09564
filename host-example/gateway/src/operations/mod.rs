//! `/metrics`, `/healthz`, `/readyz` and pages for operators, on a separate address.

pub(crate) mod admin;
pub mod history;
mod page;
mod records;
pub mod status;
pub(crate) mod trail;
pub(crate) mod upkeep;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use lro_host::policy::Digest;
use lro_host::store::{Store, Ulid};
use metrics::{Unit, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::page::Visitor;
use crate::listener::attempts::{AttemptOutcome, Attempts};
use crate::listener::connections::{Caller, Connections};
use crate::listener::guard::{Guard, Refusal, bearer};
use crate::metrics::{OWN_CALL_SECONDS, POLICY_MEMORY_BYTES, POLICY_SECONDS, describe};
use crate::operations::admin::Admin;
use crate::tenants::rules::Rules;

/// How often observations are merged into their histograms, so that they do not pile up without scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Buckets of the time histograms, in seconds: an instance takes some 20 µs, a call at most 30 s unless its limit is
/// raised.
const SECONDS_BUCKETS: [f64; 16] =
    [25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];

/// Buckets of the memory histograms, in bytes: from 1 MiB to the default limit of 64 MiB.
const MEMORY_BUCKETS: [f64; 7] =
    [1_048_576.0, 2_097_152.0, 4_194_304.0, 8_388_608.0, 16_777_216.0, 33_554_432.0, 67_108_864.0];

/// Content type of the metrics: Prometheus text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Part of every line with a metric of one tenant.
const TENANT_LABEL: &str = "tenant=\"";

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationsError {
    /// The address cannot be bound.
    #[error("cannot listen at {address} (gateway.metrics-listen)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The thread of the server cannot be started.
    #[error("cannot start a thread for the metrics server")]
    Thread(#[source] io::Error),
    /// The metrics recorder cannot be created.
    #[error("cannot create the metrics recorder")]
    Build(#[from] BuildError),
    /// The program has installed another global recorder of the crate `metrics`.
    #[error(
        "this program has its own metrics recorder already: read the metrics there, and unset gateway.metrics-listen"
    )]
    Recorder,
}

/// The metrics server, on its own thread. Dropping it stops the server.
#[derive(Debug)]
pub struct Operations {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The SHA-256 digests of the operators' bearer tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorTokens {
    /// The token that allows changing policies.
    pub admin: Option<Digest>,
    /// The token that allows reading names of tenants from other machines. The admin token does too.
    pub metrics: Option<Digest>,
}

/// Whose token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Admin,
    Metrics,
}

impl OperatorTokens {
    /// Whose token this is. Both are compared, each in constant time.
    fn operator(&self, token: &str) -> Option<Operator> {
        let digest = Sha256::digest(token);
        let is = |known: Option<Digest>| known.is_some_and(|known| bool::from(known.0.ct_eq(&digest)));
        match (is(self.admin), is(self.metrics)) {
            (true, _) => Some(Operator::Admin),
            (false, true) => Some(Operator::Metrics),
            (false, false) => None,
        }
    }
}

/// Why `/healthz` reports the gateway as degraded, or `/readyz` as not ready.
#[derive(Debug, thiserror::Error)]
enum HealthError {
    #[error("draining: the gateway is about to end")]
    Draining,
    #[error("degraded: no policy for {0}")]
    NoPolicy(String),
    #[error("results cannot be offloaded: {0}")]
    Store(String),
    #[error("results cannot be offloaded: the directory of the store: {0}")]
    Directory(io::Error),
}

#[derive(Debug)]
struct OperationsFace {
    rules: Arc<Rules>,
    admin: Option<Admin>,
    tokens: OperatorTokens,
    /// Whether only this machine can connect.
    is_local: bool,
    attempts: Attempts,
    guard: Guard,
    recorder: PrometheusHandle,
    file_counts: Mutex<FileCounts>,
}

/// Number of files of each offload, which never changes.
#[derive(Debug, Default)]
struct FileCounts(HashMap<Ulid, u64>);

impl Operations {
    /// Installs the global recorder of the crate `metrics`, and serves its metrics on this address. With an admin token
    /// and tenants, policies can be changed there too.
    ///
    /// # Errors
    /// [`OperationsError`] if the address cannot be bound, or the thread or the recorder cannot be created.
    pub fn start(rules: &Arc<Rules>, address: SocketAddr, tokens: OperatorTokens) -> Result<Self, OperationsError> {
        let failed = |source| OperationsError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let component_bytes = rules.config.loading.component_bytes.get();
        let admin = tokens.admin.zip(rules.tenants.as_ref());
        let face = OperationsFace {
            rules: Arc::clone(rules),
            admin: admin.map(|(token, tenants)| Admin::new(Arc::clone(tenants.registry()), token, component_bytes)),
            tokens,
            is_local: address.ip().is_loopback(),
            attempts: Attempts::default(),
            guard: Guard::new(&rules.config.gateway, address, None),
            recorder: recorder()?,
            file_counts: Mutex::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OperationsError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    served = face.serve(listener) => {
                        if let Err(error) = served {
                            tracing::error!(%error, "cannot serve metrics");
                        }
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("lro-metrics".into()).spawn(serve).map_err(OperationsError::Thread)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The URL of the metrics.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Installs the global recorder.
fn recorder() -> Result<PrometheusHandle, OperationsError> {
    let full = |name: &str| Matcher::Full(name.to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(full(POLICY_SECONDS), &SECONDS_BUCKETS)?
        .set_buckets_for_metric(full(OWN_CALL_SECONDS), &SECONDS_BUCKETS)?
        .set_buckets_for_metric(full(POLICY_MEMORY_BYTES), &MEMORY_BUCKETS)?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| OperationsError::Recorder)?;
    describe();
    describe_gauge!("lro_store_offloads", Unit::Count, "Offloads that this process knows");
    describe_gauge!("lro_store_files", Unit::Count, "Files of these offloads");
    describe_gauge!("lro_store_bytes", Unit::Bytes, "Disk usage of these offloads");
    describe_gauge!("process_start_time_seconds", Unit::Seconds, "When the process started, in seconds of Unix time");
    describe_gauge!("lro_build_info", "The version; always 1");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    gauge!("process_start_time_seconds").set(now.as_secs_f64());
    gauge!("lro_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

impl OperationsFace {
    async fn serve(self, listener: std::net::TcpListener) -> io::Result<()> {
        let (listener, recorder) = (TcpListener::from_std(listener)?, self.recorder.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP_INTERVAL).await;
                recorder.run_upkeep();
            }
        });
        let settings = &self.rules.config.gateway;
        let connections = Connections::new(settings, settings.metrics_connections.get() as usize, None);
        let face = Arc::new(self);
        let answer = move |caller, request| {
            let face = Arc::clone(&face);
            async move { face.answer(&caller, request).await }
        };
        connections.serve(listener, answer, std::future::pending()).await;
        Ok(())
    }

    async fn answer(&self, caller: &Caller, request: Request) -> Response {
        if let Err(refusal) = self.guard.check_source(request.headers(), request.uri()) {
            return refusal.response();
        }
        let has_token = request.headers().contains_key(AUTHORIZATION);
        let answered = self.respond(caller, request).await;
        if has_token
            && answered.status() == StatusCode::UNAUTHORIZED
            && self.attempts.failed(caller.address()).await == AttemptOutcome::TooMany
        {
            return Refusal::TooManyTokens.response();
        }
        answered
    }

    async fn respond(&self, caller: &Caller, request: Request) -> Response {
        if let Some(admin) = self.admin.as_ref().filter(|_| request.uri().path().starts_with(admin::POLICIES_PATH)) {
            return admin.answer(request, caller.address()).await;
        }
        if page::is_page(request.uri().path()) {
            return match self.visitor(caller, request.headers()) {
                Ok(visitor) => page::answer(&self.rules, self.admin.as_ref(), &visitor, request).await,
                Err(()) => page::unauthorized(),
            };
        }
        let Ok(names) = self.may_see_names(request.headers()) else {
            return text(
                StatusCode::UNAUTHORIZED,
                "invalid bearer token: use that of gateway.metrics-token or gateway.admin-token\n",
            );
        };
        let asks = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/metrics" | "/healthz" | "/readyz" if !asks => text(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD\n"),
            "/metrics" => {
                let mut response = text(StatusCode::OK, self.metrics(names));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
                response
            }
            "/healthz" => probe(self.health(), names),
            "/readyz" => probe(self.readiness(), names),
            _ => text(StatusCode::NOT_FOUND, "not found: use /, /metrics, /healthz or /readyz\n"),
        }
    }

    /// Whether a request may read names of tenants and directories: any on this machine; from other machines, those
    /// with a token of an operator. Any other token is an error there.
    fn may_see_names(&self, headers: &HeaderMap) -> Result<bool, ()> {
        if self.is_local || !headers.contains_key(AUTHORIZATION) {
            return Ok(self.is_local);
        }
        bearer(headers).and_then(|token| self.tokens.operator(token)).map(|_| true).ok_or(())
    }

    /// Who asks for a page. A token that is wrong is an error.
    fn visitor(&self, caller: &Caller, headers: &HeaderMap) -> Result<Visitor, ()> {
        let address = caller.address();
        let Some(token) = bearer(headers).map(str::to_owned).or_else(|| page::basic(headers)) else {
            return Ok(Visitor { address, sees_names: self.is_local, is_admin: false });
        };
        let operator = self.tokens.operator(&token).ok_or(())?;
        Ok(Visitor { address, sees_names: true, is_admin: operator == Operator::Admin })
    }

    /// Renders the metrics, with or without those of single tenants.
    fn metrics(&self, names: bool) -> String {
        self.rules.metrics.export();
        if let Ok(store) = &self.rules.filter.store {
            let usage = store.usage();
            let files = self.file_counts.lock().files(store);
            gauge!("lro_store_offloads").set(usage.offloads as f64);
            gauge!("lro_store_files").set(files as f64);
            gauge!("lro_store_bytes").set(usage.bytes as f64);
        }
        let rendered = self.recorder.render();
        if names {
            return rendered;
        }
        rendered.split_inclusive('\n').filter(|line| !line.contains(TENANT_LABEL)).collect()
    }

    /// Checks that the gateway is healthy, and goes on to accept connections.
    fn readiness(&self) -> Result<(), HealthError> {
        if self.rules.is_draining() { Err(HealthError::Draining) } else { self.health() }
    }

    /// Checks that every tenant has a policy and the store can be written.
    fn health(&self) -> Result<(), HealthError> {
        let slots = self.rules.tenants.as_ref().map(|tenants| tenants.registry().slots()).unwrap_or_default();
        let absent: Vec<&str> =
            slots.iter().filter(|(_, slot)| slot.current().is_none()).map(|(tenant, _)| tenant.as_str()).collect();
        if !absent.is_empty() {
            return Err(HealthError::NoPolicy(absent.join(", ")));
        }
        let store = self.rules.filter.store.as_ref().map_err(|error| HealthError::Store(error.for_client()))?;
        store.check().map_err(|error| HealthError::Store(error.for_client()))?;
        fs::metadata(store.root()).map_err(HealthError::Directory)?;
        Ok(())
    }
}

/// The response to a probe, with the reason for those who may see names.
fn probe(checked: Result<(), HealthError>, names: bool) -> Response {
    match checked {
        Ok(()) => text(StatusCode::OK, "ok\n"),
        Err(error) if names || matches!(error, HealthError::Draining) => {
            text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))
        }
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "degraded\n"),
    }
}

impl FileCounts {
    /// The number of files of all offloads. Only the directories of new ones are read.
    fn files(&mut self, store: &Store) -> u64 {
        let count = |tenant: &str, id: Ulid| {
            let directory = store.root().join(tenant).join(id.to_string());
            fs::read_dir(directory).map_or(0, |entries| entries.count() as u64)
        };
        let listed = store.list();
        let files = listed.iter().map(|offload| {
            let known = self.0.get(&offload.id).copied();
            (offload.id, known.unwrap_or_else(|| count(&offload.tenant, offload.id)))
        });
        self.0 = files.collect();
        self.0.values().sum()
    }
}

fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
