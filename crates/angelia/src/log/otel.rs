//! Sends a span for each turn to an OpenTelemetry collector, as OTLP over HTTP. Built only with the
//! cargo feature `otel`, and active only if the standard variables ask for it. A span describes the
//! course of a turn, but never contains its text.

use std::{fmt, pin::Pin, sync::OnceLock, time::Duration};

use angelia_core::engine::TURN_SPAN_TARGET;
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::runtime::Runtime;
use tracing::Subscriber;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::{cli::print, config::Environment};

const SERVICE_NAME: &str = "angelia";

/// The variables that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// Time limit for one request to the collector, and for the last one when the process exits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Returns the layer that converts the engine's spans to OpenTelemetry's, if this process should
/// send them.
pub(super) fn layer<S>(environment: &Environment) -> Option<impl Layer<S> + use<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if !is_wanted(environment) {
        return None;
    }
    let provider = match build_provider() {
        Ok(provider) => provider,
        Err(error) => {
            print::note(&format!("no traces are sent: {error}"));
            return None;
        }
    };
    let tracer = provider.tracer(SERVICE_NAME);
    let _first = PROVIDER.set(provider);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        // The span's location in our code says nothing about a turn.
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false);
    Some(layer.with_filter(filter_fn(|span| span.target() == TURN_SPAN_TARGET)))
}

/// Sends the spans that are still waiting. No spans may be created afterwards.
pub(super) fn flush() {
    if let Some(provider) = PROVIDER.get()
        && let Err(error) = provider.shutdown_with_timeout(FLUSH_TIMEOUT)
    {
        tracing::warn!(%error, "not all traces were sent");
    }
}

/// Returns whether to send traces: only if a collector is named or the exporter is chosen. Unlike
/// other programs, this one does not send to a default address.
fn is_wanted(environment: &Environment) -> bool {
    let value = |name| environment.non_empty(name).and_then(|value| value.to_str());
    if value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return false;
    }
    match value("OTEL_TRACES_EXPORTER") {
        Some(exporter) => exporter.eq_ignore_ascii_case("otlp"),
        None => ENDPOINTS.iter().any(|name| environment.non_empty(name).is_some()),
    }
}

fn build_provider() -> Result<SdkTracerProvider, Box<dyn std::error::Error>> {
    // The exporter reads the other standard variables itself.
    let exporter =
        SpanExporter::builder().with_http().with_http_client(Transport::new()?).build()?;
    Ok(SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build())
}

/// Returns the attributes shared by all spans: the service name, unless a variable sets another
/// one, and our version.
fn resource() -> Resource {
    let resource = Resource::builder().build();
    let named = resource.get(&"service.name".into()).map(|name| name.to_string());
    let is_named = named.is_some_and(|name| !name.starts_with("unknown_service"));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    if is_named { builder.build() } else { builder.with_service_name(SERVICE_NAME).build() }
}

/// Sends requests with the HTTP client that webhooks also use, so that the program has only one TLS
/// library.
struct Transport {
    client: reqwest::Client,
    runtime: Runtime,
}

impl Transport {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        // An error means that this process has already installed a provider, which serves as well.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            // The runtime works only during a request, so it would not notice that a connection was
            // closed.
            .pool_max_idle_per_host(0)
            .build()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { client, runtime })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut received = self.client.execute(request.try_into()?).await?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = received.status();
        *response.headers_mut() = std::mem::take(received.headers_mut());
        *response.body_mut() = received.bytes().await?;
        Ok(response)
    }
}

impl HttpClient for Transport {
    /// Sends a request. The exporter waits here on its own thread, so a runtime that is busy or
    /// stopping does not delay it.
    fn send_bytes<'life, 'sent>(
        &'life self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'life: 'sent,
        Self: 'sent,
    {
        Box::pin(std::future::ready(self.runtime.block_on(self.send(request))))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}
