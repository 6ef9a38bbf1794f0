//! Who waits wants to see something move. What fetches tells; who talks to people shows.

/// Told of everything that takes long enough to be watched. Shared by all threads that fetch.
pub trait Progress: Send + Sync {
    /// Something begins that people may watch; `total` in bytes, where it is known. Dropping the task ends it.
    fn begin(&self, what: &str, total: Option<u64>) -> Box<dyn Task>;
}

/// One thing under way. Called about every quarter of a megabyte: has to be cheap.
pub trait Task: Send + Sync {
    /// So many bytes are done, counted from the beginning. Goes back when a download has to start over.
    fn at(&self, position: u64);
}

/// Nobody watches.
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
