//! An image out of a registry, unpacked: beside podman, and beside skopeo with umoci. The registry is on this machine, so that
//! no run waits for a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use shorefast_image::{Reference, Store};
use shorefast_tests::servers::Registry;
use shorefast_tests::servers::registry::{Access, Transport};
use shorefast_tests::{Client, Host, Layout};

use super::numbers::{Goal, Limit, Measured, SHOREFAST, Series, Unit, ratio};
use crate::process;

const PODMAN: &str = "podman";
const SKOPEO: &str = "skopeo and umoci";
const WAYS: [&str; 3] = [SHOREFAST, PODMAN, SKOPEO];
const PORT: u16 = 5000;
/// The largest of the tests' images.
const CONTENT: &str = "glusterfs";
const LOOKS: usize = 1000;
const PRESENT: &str = "a present image, for a mount";

/// What tar puts into each layer.
const IMAGES: [(&str, &[&[&str]]); 2] = [
    ("one layer", &[&["."]]),
    (
        "four layers",
        &[
            &["--exclude=./usr/bin", "--exclude=./usr/lib", "--exclude=./usr/sbin", "--exclude=./usr/share", "."],
            &["./usr/bin", "./usr/sbin"],
            &["./usr/lib"],
            &["./usr/share"],
        ],
    ),
];

/// Some 15 seconds a round: a tenth of the usual rounds has to do.
pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let registry = Registry::start(host, PORT, Transport::Plain, Access::Anybody);
    configure(&registry)?;
    let (mut series, mut goals) = (Vec::new(), Vec::new());
    for (position, (what, layers)) in IMAGES.iter().enumerate() {
        let name = push(host, &registry, &format!("image-{position}"), layers)?;
        let mut ways = WAYS.map(|way| Series::new(what, way));
        let mut peak = 0.0_f64;
        for round in 0..n.div_ceil(10) {
            for turn in 0..ways.len() {
                let way = &mut ways[(round + turn) % WAYS.len()];
                let place = host.directory("place");
                let pull = pull(host, &way.way, &name, &place);
                way.values.push(pull.run()?);
                if way.way == SHOREFAST {
                    peak = peak.max(peak_memory(&place)?);
                }
                discard(&place)?;
            }
        }
        eprintln!("{what}: {} rounds", ways[0].values.len());
        for way in [PODMAN, SKOPEO] {
            let reached = ratio(&ways, what, way, SHOREFAST);
            let what = format!("{what}: {way} ÷ shorefast");
            goals.push(Goal { what, reached, limit: Limit::AtLeast(2.0), unit: "×".to_owned() });
        }
        goals.push(Goal { what: format!("{what}: most memory"), reached: peak, limit: Limit::AtMost(64.0), unit: "MB".to_owned() });
        series.extend(ways);
        if position == 0 {
            let present = resolve(host, &name)?;
            goals.push(Goal { what: PRESENT.to_owned(), reached: present.p50(), limit: Limit::AtMost(0.2), unit: "ms".to_owned() });
            series.push(present);
        }
    }
    Ok(Measured {
        title: "Pull: an image out of a registry, unpacked".to_owned(),
        note: format!(
            "The files of the image {CONTENT}, compressed with gzip, from a docker-registry on this machine over plain HTTP; everybody \
             begins with nothing and writes to a tmpfs. podman pull into its overlay storage; skopeo copy into a layout, then umoci \
             unpack. Memory is the largest resident set of our process in all rounds. A present image is what every mount pays for \
             finding it, without starting a process."
        ),
        unit: Unit::Milliseconds,
        series,
        goals,
    })
}

/// Says that the registry speaks plain HTTP, without writing to the machine's /etc.
fn configure(registry: &Registry) -> Result<()> {
    for directory in ["/run/etc/upper/shorefast", "/run/etc/work"] {
        fs::create_dir_all(directory).context("cannot create directories for an overlay")?;
    }
    fs::write("/run/etc/upper/shorefast/registries.toml", format!("[\"{}\"]\nplain_http = true\n", registry.address))?;
    let options = c"lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work";
    mount("overlay", "/etc", "overlay", MountFlags::empty(), options).context("cannot cover /etc")
}

fn push(host: &Host, registry: &Registry, tag: &str, layers: &[&[&str]]) -> Result<String> {
    let root = Client::named(CONTENT).image_directory();
    let archive = |(position, content): (usize, &&[&str])| {
        let file = host.path(format!("{position}.tar"));
        process::run(Command::new("tar").arg("--create").arg("--file").arg(&file).arg("--directory").arg(&root).args(*content))?;
        Ok(file)
    };
    let archives = layers.iter().enumerate().map(archive).collect::<Result<Vec<PathBuf>>>()?;
    let layout = Layout::new(host);
    layout.image_of_archives(tag, &archives);
    registry.push(&layout.path, tag, &format!("{tag}:1"));
    fs::remove_dir_all(&layout.path).context("cannot remove a layout")?;
    archives.iter().try_for_each(fs::remove_file).context("cannot remove an archive")?;
    Ok(registry.name(&format!("{tag}:1")))
}

/// Programs that run one after the other.
struct Pull(Vec<Command>);

fn pull(host: &Host, way: &str, name: &str, place: &Path) -> Pull {
    let at = |path: &str| place.join(path).display().to_string();
    let program = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        // Else podman and skopeo keep downloads in /var/tmp, on a disk.
        command.args(&words[1..]).env("TMPDIR", place);
        command
    };
    let source = format!("docker://{name}");
    match way {
        SHOREFAST => {
            let binary = host.binary().display().to_string();
            let time = ["time", "--format=%M", "--output", &at("peak"), "--", &binary];
            Pull(vec![program(&[&time[..], &["--root", &at("store"), "image", "pull", name]].concat())])
        }
        PODMAN => {
            let places = ["podman", "--root", &at("storage"), "--runroot", &at("run"), "--tmpdir", &at("tmp")];
            let rest = ["--storage-driver", "overlay", "--events-backend", "none", "pull", "--quiet", "--tls-verify=false", name];
            Pull(vec![program(&[&places[..], &rest].concat())])
        }
        _ => {
            let (layout, image) = (format!("oci:{}:it", at("layout")), format!("{}:it", at("layout")));
            Pull(vec![
                program(&["skopeo", "copy", "--quiet", "--insecure-policy", "--src-tls-verify=false", &source, &layout]),
                program(&["umoci", "unpack", "--image", &image, &at("bundle")]),
            ])
        }
    }
}

impl Pull {
    /// In milliseconds.
    fn run(self) -> Result<f64> {
        let start = Instant::now();
        for mut command in self.0 {
            let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
            ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(start.elapsed().as_secs_f64() * 1000.0)
    }
}

/// In megabytes; time(1) says kilobytes of 1024 bytes.
fn peak_memory(place: &Path) -> Result<f64> {
    let text = fs::read_to_string(place.join("peak")).context("cannot read what time(1) wrote")?;
    Ok(text.trim().parse::<f64>().context("time(1) wrote no number")? * 1024.0 / 1e6)
}

fn discard(place: &Path) -> Result<()> {
    // podman mounts its storage on itself; no other program mounts anything.
    let _ = unmount(place.join("storage/overlay"), UnmountFlags::DETACH);
    fs::remove_dir_all(place).with_context(|| format!("cannot remove {}", place.display()))
}

/// How long the store takes to find an image that it has.
fn resolve(host: &Host, name: &str) -> Result<Series> {
    let place = host.directory("place");
    pull(host, SHOREFAST, name, &place).run()?;
    let (store, reference) = (Store::at(place.join("store")), name.parse::<Reference>()?);
    let mut present = Series::new(PRESENT, SHOREFAST);
    for _ in 0..LOOKS {
        let start = Instant::now();
        let found = store.resolve(&reference, &[])?;
        present.values.push(start.elapsed().as_secs_f64() * 1000.0);
        ensure!(found.is_some(), "{name} was pulled, and is not there");
    }
    discard(&place)?;
    Ok(present)
}
