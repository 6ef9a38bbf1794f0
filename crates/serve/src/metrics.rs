//! What the server counts, and how it is written down for Prometheus (OpenMetrics).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use shorefast_engine::error::{Kind, Step};
use shorefast_engine::list::Listing;
use shorefast_engine::record::{self, Crash, Record};
use shorefast_worker::Outcome;

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    operations: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    running: Gauge<i64, AtomicI64>,
    stuck: Gauge<i64, AtomicI64>,
    mounts: Family<Labels, Gauge>,
    heals: Family<Labels, Counter>,
    pulls: Family<Labels, Counter>,
    /// Crashes from before are in no count: who restarts the server would count them once more.
    since: u64,
    /// Counted already, of mounts that are there.
    crashes: Mutex<HashSet<Seen>>,
}

/// The first id of the mount, when, and what came of it.
type Seen = (String, u64, &'static str);

/// From a mount of a local client to one that fetches its image.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("shorefast"),
            operations: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            running: Gauge::default(),
            stuck: Gauge::default(),
            mounts: Family::default(),
            heals: Family::default(),
            pulls: Family::default(),
            since: record::now(),
            crashes: Mutex::default(),
        };
        metrics.registry.register("operations", "Operations of workers, by kind and outcome", metrics.operations.clone());
        metrics.registry.register("operation_seconds", "How long operations took", metrics.seconds.clone());
        metrics.registry.register("workers_running", "Workers at this moment", metrics.running.clone());
        metrics.registry.register("workers_stuck", "Workers that were killed and wait for a server in the kernel", metrics.stuck.clone());
        metrics.registry.register("mounts", "Mounts of this host, by client and state", metrics.mounts.clone());
        metrics.registry.register("heals", "Crashes of clients, by client and whether another one took over", metrics.heals.clone());
        metrics.registry.register("image_pulls", "Operations that fetched an image, by outcome", metrics.pulls.clone());
        // What is not there until it happens cannot be seen to grow.
        for outcome in [DONE, FAILED] {
            drop(metrics.pulls.get_or_create(&vec![("outcome", outcome.to_owned())]));
        }
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

    pub(crate) fn set_stuck(&self, count: usize) {
        self.stuck.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_mounts(&self, listing: &Listing) {
        self.mounts.clear();
        for one in &listing.mounts {
            let state = one.standing.as_ref().map_or_else(|| "gone".to_owned(), |standing| serde_name(&standing.state));
            self.mounts.get_or_create(&vec![("client", one.record.client.clone()), ("state", state)]).inc();
        }
        self.count_heals(listing.mounts.iter().map(|one| &one.record));
    }

    /// Who heals a mount is a process of its own; what came of it is in the mount's record.
    fn count_heals<'a>(&self, records: impl Iterator<Item = &'a Record>) {
        let Ok(mut seen) = self.crashes.lock() else { return };
        let mut there = HashSet::new();
        for record in records {
            for (at, outcome) in record.crashes.iter().filter(|crash| crash.at >= self.since).filter_map(outcome_of) {
                let crash = (record.lineage().to_owned(), at, outcome);
                if there.insert(crash.clone()) && !seen.contains(&crash) {
                    self.heals.get_or_create(&vec![("client", record.client.clone()), ("outcome", outcome.to_owned())]).inc();
                }
            }
        }
        *seen = there;
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// And when. `None`: not known yet.
fn outcome_of(crash: &Crash) -> Option<(u64, &'static str)> {
    match (crash.healed_after_ms, &crash.problem) {
        (Some(_), _) => Some((crash.at, "healed")),
        (None, Some(_)) => Some((crash.at, FAILED)),
        (None, None) => None,
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
        let kind = outcome.result.as_ref().map_or_else(|failure| serde_name(&failure.kind), |_| DONE.to_owned());
        let operation = ("operation", self.operation.to_owned());
        self.metrics.operations.get_or_create(&vec![operation.clone(), ("outcome", kind)]).inc();
        self.metrics.seconds.get_or_create(&vec![operation]).observe(self.since.elapsed().as_secs_f64());
        if let Some(pulled) = pulled(outcome) {
            self.metrics.pulls.get_or_create(&vec![("outcome", pulled.to_owned())]).inc();
        }
    }
}

const DONE: &str = "done";
const FAILED: &str = "failed";

/// `None`: no image was fetched. What a mount does with its image later is not the image's affair.
fn pulled(outcome: &Outcome) -> Option<&'static str> {
    match &outcome.result {
        Err(failure) if failure.kind == Kind::ImageUnavailable || failure.step == Step::Image => Some(FAILED),
        _ if outcome.downloads > 0 => Some(DONE),
        _ => None,
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
