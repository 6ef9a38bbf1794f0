//! Rounds: in each, every way mounts once, in an order that changes from round to round. What disturbs the machine for a while
//! disturbs all ways alike, and no way always comes after the same other.

use anyhow::Result;

use super::calm::Calm;
use super::numbers::Series;
use super::way::Way;

/// Values are milliseconds.
pub(super) fn run(what: &str, ways: &[Way], n: usize) -> Result<Vec<Series>> {
    let calm = Calm::now();
    // What is used for the first time is read from the disk: not measured.
    for way in ways {
        once(way, &calm)?;
    }
    let mut series: Vec<_> = ways.iter().map(|way| Series::new(what, way.name)).collect();
    for round in 0..n {
        for index in order(round, (0..ways.len()).collect()) {
            series[index].values.push(once(&ways[index], &calm)?);
        }
        if (round + 1).is_multiple_of(n.div_ceil(4).max(10)) {
            eprintln!("{what}: {} of {n} rounds", round + 1);
        }
    }
    Ok(series)
}

fn once(way: &Way, calm: &Calm) -> Result<f64> {
    let live = way.mount()?;
    let took = live.took;
    live.end()?;
    calm.wait()?;
    Ok(took.as_secs_f64() * 1e3)
}

/// All orders of `members`, one per round, then again from the first.
pub(super) fn order(round: usize, mut members: Vec<usize>) -> Vec<usize> {
    let mut rest = round;
    let mut order = Vec::with_capacity(members.len());
    while !members.is_empty() {
        let next = rest % members.len();
        rest /= members.len();
        order.push(members.remove(next));
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_order_comes_equally_often() {
        let orders: BTreeSet<_> = (0..24).map(|round| order(round, vec![0, 1, 2, 3])).collect();
        assert_eq!(orders.len(), 24);
        assert_eq!(order(24, vec![0, 1, 2, 3]), order(0, vec![0, 1, 2, 3]));
        assert_eq!([order(0, vec![4, 7]), order(1, vec![4, 7])], [vec![4, 7], vec![7, 4]]);
    }
}
