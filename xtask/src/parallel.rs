//! Doing the same with several things, a few at a time.

use std::sync::Mutex;
use std::thread;

/// Most of our work is one process per thing: as many at once as a small machine has cores.
const AT_ONCE: usize = 2;

/// The results come in the order of the things.
pub(crate) fn in_parallel<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let waiting = Mutex::new(things.iter().enumerate());
    let next = || waiting.lock().expect("no worker panics while it takes the next thing").next();
    let worker = || std::iter::from_fn(next).map(|(place, thing)| (place, work(thing))).collect::<Vec<_>>();
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("work returns errors and does not panic")).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn every_thing_is_done_once_and_in_order() {
        let things: Vec<_> = (0..100).collect();
        assert_eq!(in_parallel(&things, |thing| thing * 2), things.iter().map(|thing| thing * 2).collect::<Vec<_>>());
    }
}
