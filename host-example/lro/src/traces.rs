//! Traces for a collector of OpenTelemetry, by OTLP over HTTP. The variables of OpenTelemetry say where they go: see
//! `host-example/docs/how-to/traces.md`.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use lro_host::SPANS;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Export};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Layer;

use crate::exchange::install_cryptography;

/// The service, unless `OTEL_SERVICE_NAME` names another.
const SERVICE: &str = "lro-gateway";

/// How long the last spans may take to be sent at the end. Clients wait two seconds for the gateway.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The only protocol that is built in.
const PROTOCOL: &str = "http/protobuf";

/// Sends spans to a collector, on a separate thread. Dropping it sends the last ones.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
}

/// An exporter that logs when it begins to fail and when it works again, and not each time.
#[derive(Debug)]
struct Reporting {
    exporter: SpanExporter,
    has_failed: AtomicBool,
}

impl Export for Reporting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        match self.exporter.export(batch).await {
            Ok(()) if self.has_failed.swap(false, Ordering::Relaxed) => {
                tracing::warn!("the collector takes traces again");
            }
            Ok(()) => {}
            Err(error) if !self.has_failed.swap(true, Ordering::Relaxed) => {
                tracing::warn!(spans, %error, "traces are lost until the collector takes them");
            }
            Err(error) => tracing::debug!(spans, %error, "traces are lost"),
        }
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl Traces {
    /// The traces that the environment asks for; `None` if it names no collector, or turns them off.
    ///
    /// # Errors
    /// If the variables are invalid.
    pub(crate) fn of_environment() -> anyhow::Result<Option<Self>> {
        let is = |name: &str, value: &str| text(name).is_some_and(|text| text.eq_ignore_ascii_case(value));
        let names_collector = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .iter()
            .any(|name| text(name).is_some());
        if !names_collector || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            if let Some(other) = text(name).filter(|protocol| protocol != PROTOCOL) {
                bail!(
                    "{name} is `{other}`, and traces are sent by {PROTOCOL} alone: unset it, and name that port of the collector"
                );
            }
        }
        install_cryptography();
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).build();
        let exporter = exporter.context("traces cannot be sent: see the variables OTEL_EXPORTER_OTLP_*")?;
        let exporter = Reporting { exporter, has_failed: AtomicBool::new(false) };
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Some(Self { provider }))
    }

    /// What turns spans of calls into those of OpenTelemetry.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(env!("CARGO_PKG_NAME")));
        // What only the code knows says nothing to an operator.
        let layer = layer.with_location(false).with_target(false).with_threads(false).with_tracked_inactivity(false);
        layer.with_context_activation(false).with_filter(Targets::new().with_target(SPANS, LevelFilter::INFO)).boxed()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::debug!(%error, "the last traces are lost");
        }
    }
}

fn resource() -> Resource {
    let resource = Resource::builder();
    let is_named = text("OTEL_SERVICE_NAME").is_some()
        || text("OTEL_RESOURCE_ATTRIBUTES")
            .is_some_and(|all| all.split(',').any(|one| one.trim().starts_with("service.name=")));
    if is_named { resource.build() } else { resource.with_service_name(SERVICE).build() }
}

/// The text of a variable, if it is set.
fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}
