//! What the server counts, and how it is written down for Prometheus (OpenMetrics).

use std::sync::atomic::AtomicI64;
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use shorefast_engine::list::Listing;
use shorefast_worker::Outcome;

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    operations: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    running: Gauge<i64, AtomicI64>,
    mounts: Family<Labels, Gauge>,
}

/// From a mount of a local client to one that fetches its image.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("shorefast"),
            operations: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            running: Gauge::default(),
            mounts: Family::default(),
        };
        metrics.registry.register("operations", "Operations of workers, by kind and outcome", metrics.operations.clone());
        metrics.registry.register("operation_seconds", "How long operations took", metrics.seconds.clone());
        metrics.registry.register("workers_running", "Workers at this moment", metrics.running.clone());
        metrics.registry.register("mounts", "Mounts of this host, by client and state", metrics.mounts.clone());
        metrics
    }
}

impl Metrics {
    /// The content type of [`text`](Self::text).
    pub const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    pub(crate) fn begin(&self, operation: &'static str) -> Measured<'_> {
        self.running.inc();
        Measured { metrics: self, operation, since: Instant::now() }
    }

    pub(crate) fn set_mounts(&self, listing: &Listing) {
        self.mounts.clear();
        for one in &listing.mounts {
            let state = one.standing.as_ref().map_or_else(|| "gone".to_owned(), |standing| serde_name(&standing.state));
            self.mounts.get_or_create(&vec![("client", one.record.client.clone()), ("state", state)]).inc();
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// One operation under way.
pub(crate) struct Measured<'a> {
    metrics: &'a Metrics,
    operation: &'static str,
    since: Instant,
}

impl Measured<'_> {
    pub(crate) fn end(&self, outcome: &Outcome) {
        let kind = outcome.result.as_ref().map_or_else(|failure| serde_name(&failure.kind), |_| "done".to_owned());
        let operation = ("operation", self.operation.to_owned());
        self.metrics.operations.get_or_create(&vec![operation.clone(), ("outcome", kind)]).inc();
        self.metrics.seconds.get_or_create(&vec![operation]).observe(self.since.elapsed().as_secs_f64());
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.metrics.running.dec();
    }
}

/// The name by which the value is written as JSON.
fn serde_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
