//! How much of the past is kept. By names only: nothing is read.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::past::names::{DIRECTORY, parse, places};

/// So many stories are kept. One has up to 64 KiB of output, and usually a few hundred bytes.
pub(crate) const KEPT: usize = 100;
/// Of one target: what fails again and again must not drive out all others.
pub(crate) const OF_A_TARGET: usize = 10;
/// For so long.
pub(crate) const AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Removes what is too much, oldest first. Also as long as the run directory's filesystem is nearly full: mounts need it more.
pub(crate) fn keep_bounds(directory: &Path) {
    let places = places(directory);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (gone, kept) = choose(&places, now);
    let remove = |place: &PathBuf| drop(fs::remove_file(place));
    gone.into_iter().for_each(remove);
    kept.into_iter().take_while(|_| is_nearly_full(directory)).for_each(remove);
}

/// Removes all of it: a mount needs the room. Returns whether there was anything.
pub fn make_room(run_dir: &Path) -> bool {
    let places = places(&run_dir.join(DIRECTORY));
    places.iter().filter(|place| fs::remove_file(place).is_ok()).count() > 0
}

/// What goes and what stays, of what is there, oldest first.
fn choose(places: &[PathBuf], now: Duration) -> (Vec<&PathBuf>, Vec<&PathBuf>) {
    let mut of_target: HashMap<&str, usize> = HashMap::new();
    let mut kept = 0;
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    for place in places.iter().rev() {
        let Some((time, target)) = parse(place) else { continue };
        let of_target = of_target.entry(target).or_default();
        if kept < KEPT && *of_target < OF_A_TARGET && now.saturating_sub(time) < AGE {
            (kept, *of_target) = (kept + 1, *of_target + 1);
            stay.push(place);
        } else {
            go.push(place);
        }
    }
    stay.reverse();
    (go, stay)
}

/// In bytes. A disk that is three quarters full has room for it all.
const PLENTY: u64 = 64 << 20;

fn is_nearly_full(directory: &Path) -> bool {
    // No blocks: a tmpfs without a limit.
    rustix::fs::statvfs(directory)
        .is_ok_and(|space| space.f_bavail < space.f_blocks / 4 && space.f_bavail.saturating_mul(space.f_frsize) < PLENTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn place(age: Duration, target: usize, number: usize) -> PathBuf {
        PathBuf::from(format!("/past/{:016x}-{target:08x}-m0001-{number:x}.log", (NOW - age).as_micros()))
    }

    #[test]
    fn the_oldest_go_and_no_target_has_all() {
        let minute = |count: usize| Duration::from_secs(60 * count as u64);
        let one_each: Vec<_> = (0..KEPT + 7).map(|number| place(minute(1000 - number), number, number)).collect();
        let of_one: Vec<_> = (0..OF_A_TARGET + 3).map(|number| place(minute(1000 - number), 1, number)).collect();
        let day = Duration::from_secs(24 * 60 * 60);
        let old: Vec<_> = [9, 8, 6].map(|days| place(day * days, days as usize, 1)).to_vec();
        for (name, places, gone) in [("number", &one_each, 7), ("target", &of_one, 3), ("age", &old, 2)] {
            let (go, stay) = choose(places, NOW);
            assert_eq!((go.len(), stay.len()), (gone, places.len() - gone), "{name}");
            assert!(stay.iter().all(|place| go.iter().all(|gone| gone < place)), "{name}");
        }
    }

    #[test]
    fn what_is_too_much_is_removed() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join(DIRECTORY);
        fs::create_dir(&directory).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        for number in 0..KEPT + 20 {
            fs::write(directory.join(format!("{:016x}-{number:08x}-m0001-1.log", now + number as u128)), "").unwrap();
        }
        keep_bounds(&directory);
        let left = places(&directory);
        assert!(left.len() <= KEPT, "{}", left.len());
        assert!(left.iter().all(|place| parse(place).unwrap().0.as_micros() >= now + 20), "the newest stay");
        assert_eq!(make_room(run.path()), !left.is_empty());
        assert!(places(&directory).is_empty() && !make_room(run.path()));
    }

    #[test]
    fn what_is_no_story_is_left_alone() {
        let places = [PathBuf::from("/past/x"), "/past/1-2-3.log".into(), "/past/.hidden".into()];
        assert_eq!(choose(&places, NOW), (vec![], vec![]));
    }
}
