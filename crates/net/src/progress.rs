//! Progress: fetchers report, fronts display.

/// Receives every operation that takes long enough to be displayed. Shared by all threads that fetch.
pub trait Progress: Send + Sync {
    /// An operation begins; `total` in bytes, where it is known. Dropping the task ends it.
    fn begin(&self, what: &str, total: Option<u64>) -> Box<dyn Task>;
}

/// One operation. Called about every quarter of a megabyte: has to be cheap.
pub trait Task: Send + Sync {
    /// Bytes done, counted from the beginning. Goes back when a download has to start over.
    fn at(&self, position: u64);
}

/// Displays nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: Option<u64>) -> Box<dyn Task> {
        Box::new(Self)
    }
}

impl Task for Silent {
    fn at(&self, _: u64) {}
}
