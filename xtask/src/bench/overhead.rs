//! What the sandbox costs, where the client itself takes next to no time; and what containers cost.

use std::path::Path;

use anyhow::Result;
use shorefast_tests::Host;

use super::containers;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, NATIVE, SHOREFAST, Series, Unit, ratio};
use super::rounds;
use super::way::Way;

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let target = host.directory("target");
    let mut series = Vec::new();
    for filesystem in [Filesystem::tmpfs(), Filesystem::bindfs(host)] {
        series.extend(rounds::run(filesystem.name, &contestants(host, &filesystem, &target)?, n)?);
    }
    Ok(Measured {
        title: "Overhead: a mount whose client takes no time".to_owned(),
        note: "From the start of the command until the mount can be used. Containers are privileged, with an rshared volume.".to_owned(),
        unit: Unit::Milliseconds,
        goals: goals(&series),
        series,
    })
}

fn contestants(host: &Host, filesystem: &Filesystem, target: &Path) -> Result<Vec<Way>> {
    Ok(vec![
        Way::native(filesystem, target),
        Way::shorefast(host, filesystem, target),
        containers::runc(host, filesystem, target)?,
        containers::podman(host, filesystem, target)?,
    ])
}

fn goals(series: &[Series]) -> Vec<Goal> {
    let goal = |what: &str, reached: f64, limit: Limit| Goal { what: what.to_owned(), reached, limit, unit: "×".to_owned() };
    let times = |way: &str, base: &str| ratio(series, "bindfs", way, base);
    vec![
        goal("bindfs: shorefast ÷ native", times(SHOREFAST, NATIVE), Limit::AtMost(2.0)),
        goal("bindfs: runc ÷ shorefast", times("runc", SHOREFAST), Limit::AtLeast(9.0)),
        goal("bindfs: podman ÷ shorefast", times("podman", SHOREFAST), Limit::AtLeast(28.0)),
    ]
}
