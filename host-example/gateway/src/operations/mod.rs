//! `/metrics` and `/healthz`, at an address of their own.

pub(crate) mod admin;
pub mod status;
pub(crate) mod upkeep;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use metrics::{Unit, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::listener::attempts::{Attempts, Slowed};
use crate::listener::connections::{Caller, Connections};
use crate::listener::guard::{Guard, Refusal, bearer};
use crate::metrics::{OWN_CALL_SECONDS, POLICY_MEMORY_BYTES, POLICY_SECONDS};
use crate::operations::admin::Admin;
use crate::tenants::rules::Rules;
use lro_host::policy::Digest;
use lro_host::store::{Store, Ulid};

/// How often observations are counted into their histograms, so that they do not pile up when nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// Bounds of histograms of time, in seconds: an instance takes some 20 µs, a call at most 30 s unless the limit is raised.
const SECONDS: [f64; 16] =
    [25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];

/// Bounds of histograms of memory, in bytes: from 1 MiB to the default limit of 64 MiB.
const MEMORY_BYTES: [f64; 7] =
    [1_048_576.0, 2_097_152.0, 4_194_304.0, 8_388_608.0, 16_777_216.0, 33_554_432.0, 67_108_864.0];

/// Format of the metrics: Prometheus text.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the lines of single tenants have in them.
const TENANT_LABEL: &str = "tenant=\"";

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationsError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address} (gateway.metrics-listen)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The answer of the system.
        #[source]
        source: io::Error,
    },
    /// No thread could be started.
    #[error("no thread for metrics")]
    Thread(#[source] io::Error),
    /// The recorder could not be made.
    #[error("no recorder for metrics")]
    Build(#[from] BuildError),
    /// The program has a global recorder of the crate `metrics` already.
    #[error(
        "this program has a recorder of metrics already: take its metrics from there, without gateway.metrics-listen"
    )]
    Recorder,
}

/// A server of its own small thread. Dropped, it ends.
#[derive(Debug)]
pub struct Operations {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The SHA-256 of the tokens of those who operate a gateway.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorTokens {
    /// Of who may change policies.
    pub admin: Option<Digest>,
    /// Of who may read the names of tenants where the address can be reached from elsewhere. The other token will do as well.
    pub metrics: Option<Digest>,
}

#[derive(Debug)]
struct Face {
    rules: Arc<Rules>,
    admin: Option<Admin>,
    tokens: OperatorTokens,
    /// Whether only this machine can ask.
    is_local: bool,
    attempts: Attempts,
    guard: Guard,
    recorder: PrometheusHandle,
    held: Mutex<Held>,
}

/// Files of each offload, which never change.
#[derive(Debug, Default)]
struct Held(HashMap<Ulid, u64>);

impl Operations {
    /// Makes the global recorder of the crate `metrics`, and serves what it records at this address. Whoever has the admin token
    /// may change policies there.
    ///
    /// # Errors
    /// [`OperationsError`].
    pub fn start(rules: &Arc<Rules>, address: SocketAddr, tokens: OperatorTokens) -> Result<Self, OperationsError> {
        let failed = |source| OperationsError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let component_bytes = rules.config.loading.component_bytes.get();
        let admin = tokens.admin.zip(rules.tenants.as_ref());
        let face = Face {
            rules: Arc::clone(rules),
            admin: admin.map(|(token, tenants)| Admin::new(Arc::clone(tenants.registry()), token, component_bytes)),
            tokens,
            is_local: address.ip().is_loopback(),
            attempts: Attempts::default(),
            guard: Guard::new(&rules.config.gateway, address, None),
            recorder: recorder()?,
            held: Mutex::default(),
        };
        rules.metrics.export();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OperationsError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    served = face.serve(listener) => {
                        if let Err(error) = served {
                            tracing::error!(%error, "metrics cannot be served");
                        }
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("lro-metrics".into()).spawn(serve).map_err(OperationsError::Thread)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where the metrics are.
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

/// Sets the global recorder.
fn recorder() -> Result<PrometheusHandle, OperationsError> {
    let full = |name: &str| Matcher::Full(name.to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(full(POLICY_SECONDS), &SECONDS)?
        .set_buckets_for_metric(full(OWN_CALL_SECONDS), &SECONDS)?
        .set_buckets_for_metric(full(POLICY_MEMORY_BYTES), &MEMORY_BYTES)?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| OperationsError::Recorder)?;
    describe_gauge!("lro_store_offloads", Unit::Count, "Offloads held, as far as this process knows");
    describe_gauge!("lro_store_files", Unit::Count, "Files of these offloads");
    describe_gauge!("lro_store_bytes", Unit::Bytes, "Bytes that these offloads take up on the disk");
    describe_gauge!("process_start_time_seconds", Unit::Seconds, "When the process started, in seconds of Unix time");
    describe_gauge!("lro_build_info", "The version; always 1");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    gauge!("process_start_time_seconds").set(now.as_secs_f64());
    gauge!("lro_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

impl Face {
    async fn serve(self, listener: std::net::TcpListener) -> io::Result<()> {
        let (listener, recorder) = (TcpListener::from_std(listener)?, self.recorder.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                recorder.run_upkeep();
            }
        });
        let settings = &self.rules.config.gateway;
        let connections = Connections::new(settings, settings.metrics_connections.get() as usize);
        let face = Arc::new(self);
        let answer = move |caller, request| {
            let face = Arc::clone(&face);
            async move { face.answer(&caller, request).await }
        };
        connections.serve(listener, answer, std::future::pending()).await;
        Ok(())
    }

    async fn answer(&self, caller: &Caller, request: Request) -> Response {
        if let Err(refusal) = self.guard.check(&request, None) {
            return refusal.response();
        }
        let has_token = request.headers().contains_key(AUTHORIZATION);
        let answered = self.respond(request).await;
        if has_token
            && answered.status() == StatusCode::UNAUTHORIZED
            && self.attempts.failed(caller.address()).await == Slowed::TooMany
        {
            return Refusal::TooManyTokens.response();
        }
        answered
    }

    async fn respond(&self, request: Request) -> Response {
        if let Some(admin) = self.admin.as_ref().filter(|_| request.uri().path().starts_with(admin::PATH)) {
            return admin.answer(request).await;
        }
        let Ok(names) = self.may_name(request.headers()) else {
            return text(StatusCode::UNAUTHORIZED, "this is not the token of an operator (gateway.metrics-token)\n");
        };
        let asks = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/metrics" | "/healthz" if !asks => text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
            "/metrics" => {
                let mut response = text(StatusCode::OK, self.metrics(names));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
                response
            }
            "/healthz" => match self.illness() {
                None => text(StatusCode::OK, "ok\n"),
                Some(reason) if names => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
                Some(_) => text(StatusCode::SERVICE_UNAVAILABLE, "degraded\n"),
            },
            _ => text(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
        }
    }

    /// Whether who asks may read names of tenants and directories: anybody on this machine, and from elsewhere an operator. A
    /// token that is none of an operator's is an error there.
    fn may_name(&self, headers: &HeaderMap) -> Result<bool, ()> {
        if self.is_local || !headers.contains_key(AUTHORIZATION) {
            return Ok(self.is_local);
        }
        let digest = bearer(headers).map(Sha256::digest).ok_or(())?;
        let known = [self.tokens.admin, self.tokens.metrics].into_iter().flatten();
        let found = known.fold(Choice::from(0), |found, token| found | token.0.ct_eq(&digest));
        if bool::from(found) { Ok(true) } else { Err(()) }
    }

    /// What is recorded, with or without that of single tenants.
    fn metrics(&self, names: bool) -> String {
        self.rules.metrics.export_totals();
        if let Ok(store) = &self.rules.filter.store {
            let usage = store.usage();
            let files = self.held.lock().unwrap_or_else(PoisonError::into_inner).files(store);
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

    /// Why large results cannot be kept, or which tenants have no policy.
    fn illness(&self) -> Option<String> {
        let slots = self.rules.tenants.as_ref().map(|tenants| tenants.registry().slots()).unwrap_or_default();
        let absent: Vec<&str> =
            slots.iter().filter(|(_, slot)| slot.current().is_none()).map(|(tenant, _)| tenant.as_str()).collect();
        if !absent.is_empty() {
            return Some(format!("degraded: no policy for {}", absent.join(", ")));
        }
        let store = match &self.rules.filter.store {
            Ok(store) => store,
            Err(error) => return Some(format!("results cannot be offloaded: {}", error.for_client())),
        };
        if let Err(error) = store.check() {
            return Some(format!("results cannot be offloaded: {}", error.for_client()));
        }
        let found = fs::metadata(store.root());
        found.err().map(|error| format!("results cannot be offloaded: the directory of the store: {error}"))
    }
}

impl Held {
    /// Files of all offloads. Only new ones are looked at.
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
