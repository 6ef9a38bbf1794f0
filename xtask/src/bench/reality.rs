//! What a user notices: clients that talk to real servers, on this machine, through the network.

use anyhow::Result;
use shorefast_tests::Host;
use shorefast_tests::servers::{Gluster, Sshd};

use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, NATIVE, SHOREFAST, Series, Unit, ratio};
use super::rounds;
use super::way::Way;

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let sshd = Sshd::start(host);
    let mut series = compare(host, &Filesystem::new("sshfs", sshd.source(), sshd.options()), n)?;
    drop(sshd);
    let gluster = Gluster::start(host);
    series.extend(compare(host, &Filesystem::new("glusterfs", gluster.source(), ""), n)?);
    let goal = |name: &str| Goal {
        what: format!("{name}: shorefast ÷ native"),
        reached: ratio(&series, name, SHOREFAST, NATIVE),
        limit: Limit::AtMost(1.03),
        unit: "×".to_owned(),
    };
    Ok(Measured {
        title: "Reality: clients with real servers".to_owned(),
        note: "From the start of the command until the mount can be used; sshd and glusterd run on this machine.".to_owned(),
        unit: Unit::Milliseconds,
        goals: ["sshfs", "glusterfs"].map(goal).into(),
        series,
    })
}

fn compare(host: &Host, filesystem: &Filesystem, n: usize) -> Result<Vec<Series>> {
    let target = host.directory("target");
    let ways = [Way::native(filesystem, &target), Way::shorefast(host, filesystem, &target)];
    rounds::run(filesystem.name, &ways, n)
}
