//! `docker run` with a volume of ours, beside the same with a bind mount of the directory that the volume shows.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::{Client, Host};

use super::numbers::{Goal, Interval, Limit, Measured, SHOREFAST, Series, Unit, find, paired_ratio, ratio};
use super::rounds::order;

const BIND: &str = "bind mount";
const BIND_AGAIN: &str = "bind mount again";
const WHAT: &str = "docker run --rm … true";
const SOCKET: &str = "/run/docker/plugins/shorefast.sock";

/// Half a second each: half of the usual rounds has to do.
pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let _runtime = Runtime::start(host, Kind::Docker);
    let _plugin = Plugin::start(host)?;
    let source = host.directory("shown");
    fs::set_permissions(&source, Permissions::from_mode(0o777))?;
    let (device, image) = (format!("device={}", text(&source)), Client::named("bindfs").image_directory());
    let image = format!("image=dir:{}", text(&image));
    docker(&["volume", "create", "--driver", "shorefast", "-o", "type=bindfs", "-o", &device, "-o", &image, "ours"])?;
    let bind = format!("{}:/data", text(&source));
    let ways = [(BIND, bind.as_str()), (SHOREFAST, "ours:/data"), (BIND_AGAIN, bind.as_str())];
    let mut series = ways.map(|(way, _)| Series::new(WHAT, way));
    // What is used for the first time is read from the disk: not measured.
    ways.iter().try_for_each(|(_, volume)| run(volume).map(drop))?;
    for round in 0..n.div_ceil(2) {
        for way in order(round, (0..ways.len()).collect()) {
            series[way].values.push(run(ways[way].1)?);
        }
        if (round + 1).is_multiple_of(10) {
            eprintln!("{} rounds", round + 1);
        }
    }
    let noise = |way: &str| -> Option<Interval> { Some(paired_ratio(find(&series, WHAT, way)?, find(&series, WHAT, BIND)?).1) };
    let against = |way: &str, limit: Limit| Goal {
        what: format!("{way} ÷ {BIND}"),
        reached: ratio(&series, WHAT, way, BIND),
        limit,
        unit: "×".to_owned(),
    };
    let goals = vec![against(SHOREFAST, Limit::AtMost(1.05)), against(BIND_AGAIN, Limit::None(noise(BIND_AGAIN)))];
    Ok(Measured {
        title: "Docker: a container with a volume".to_owned(),
        note:
            "From the start of the docker command to its end: the volume is mounted for the container, and unmounted after it, each time. \
               Debian's Docker, no network of its own, everything in memory."
                .to_owned(),
        unit: Unit::Milliseconds,
        goals,
        series: series.into(),
    })
}

struct Plugin(Child);

impl Plugin {
    fn start(host: &Host) -> Result<Self> {
        let child =
            Command::new(host.binary()).args(["serve", "--docker"]).stdin(Stdio::null()).spawn().context("cannot start the plugin")?;
        let since = Instant::now();
        while !Path::new(SOCKET).exists() {
            ensure!(since.elapsed() < Duration::from_secs(10), "the plugin has no socket");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Self(child))
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Milliseconds.
fn run(volume: &str) -> Result<f64> {
    docker(&["run", "--rm", "--network=host", "-v", volume, "clients", "true"])
}

fn docker(words: &[&str]) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new("docker").args(words).stdin(Stdio::null()).output().context("cannot start docker")?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    ensure!(output.status.success(), "docker {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(took)
}
