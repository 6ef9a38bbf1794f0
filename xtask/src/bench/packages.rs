//! An image of packages, beside what mmdebstrap makes of the same archive. Everything is downloaded before.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use shorefast_tests::{Host, client};

use super::numbers::{Goal, Limit, Measured, SHOREFAST, Series, Unit, ratio};
use crate::archive::SUITE;

const MMDEBSTRAP: &str = "mmdebstrap";
const WHAT: &str = "sshfs";

/// Seconds each: a fifth of the usual rounds has to do.
pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let archive = client::cache().join("debian");
    let (mut ours, mut theirs) = (Series::new(WHAT, SHOREFAST), Series::new(WHAT, MMDEBSTRAP));
    // Once for the downloads.
    run(&mut shorefast(host, &archive))?;
    for _ in 0..n.div_ceil(5) {
        run(Command::new(host.binary()).args(["image", "remove", WHAT]))?;
        ours.values.push(run(&mut shorefast(host, &archive))?);
        let place = host.path(MMDEBSTRAP);
        theirs.values.push(run(&mut mmdebstrap(&archive, &place))?);
        fs::remove_dir_all(place)?;
    }
    let series = vec![ours, theirs];
    let goal = Goal {
        what: "sshfs: mmdebstrap ÷ shorefast".to_owned(),
        reached: ratio(&series, WHAT, MMDEBSTRAP, SHOREFAST),
        limit: Limit::AtLeast(2.0),
        unit: "×".to_owned(),
    };
    Ok(Measured {
        title: "Packages: an image of sshfs".to_owned(),
        note: "From an archive on this machine with 180 packages, so that neither waits for a network or reads Debian's whole index; both \
               write to a tmpfs. mmdebstrap --variant=extract with the same base tools and merged /usr."
            .to_owned(),
        unit: Unit::Milliseconds,
        goals: vec![goal],
        series,
    })
}

fn shorefast(host: &Host, archive: &Path) -> Command {
    let mut command = Command::new(host.binary());
    command.args(["image", "build", "--packages", WHAT, "--suite", SUITE, "--mirror"]).arg(format!("file:{}", archive.display()));
    command.arg("--keyring").arg(archive.join("key.gpg")).arg(WHAT);
    command
}

fn mmdebstrap(archive: &Path, place: &Path) -> Command {
    let mut command = Command::new(MMDEBSTRAP);
    command.args(["--quiet", "--variant=extract", "--aptopt=APT::Sandbox::User \"root\""]);
    command.args(["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--include=coreutils,dash,grep,mawk,mount,sed,sshfs", SUITE]);
    let source = format!("deb [signed-by={}/key.gpg] copy:{} {SUITE} main", archive.display(), archive.display());
    command.arg(place).arg(source);
    command
}

fn run(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let took = start.elapsed().as_secs_f64() * 1000.0;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(took)
}
