//! What the CSI driver adds: a volume that is staged and published, beside `shorefast mount` of the same; a full node's volumes at once, beside as many
//! native mounts; and the memory of a driver that has nothing to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use shorefast_csi::messages::{
    AccessMode, AccessType, Empty, Mode, MountVolume, NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest, VolumeCapability,
};
use shorefast_tests::channel::{Answer, Channel};
use shorefast_tests::client::store;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::{Host, wait};

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::memory::proportional_set_size;
use super::numbers::{Goal, Limit, Measured, NATIVE, SHOREFAST, Series, Unit};
use super::way::Way;

const ONE: &str = "bindfs, one volume";
const NODE: &str = "bindfs, 110 at once";
const CSI: &str = "stage and publish";
/// As many pods as Kubernetes puts on a node.
const VOLUMES: usize = 110;
const TIMES: usize = 5;
const PROCESSORS: f64 = 2.0;
const TO_REST: Duration = Duration::from_secs(30);
/// The kernel takes a superblock apart after its last process is gone.
const AFTERWARDS: Duration = Duration::from_millis(10);

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let driver = Driver::start(host)?;
    let calm = Calm::now();
    let mut series = one_volume(host, &driver, &calm, n)?;
    let (at_once, fewest) = full_node(host, &driver, &calm)?;
    series.extend(at_once);
    // What it keeps for the next request is part of it.
    thread::sleep(Duration::from_secs(5));
    let memory: f64 = driver.processes().iter().map(proportional_set_size).sum::<Result<f64>>()?;
    let p50 = |what: &str, way: &str| series.iter().find(|one| one.what == what && one.way == way).map_or(f64::NAN, Series::p50);
    let more = p50(ONE, CSI) - p50(ONE, SHOREFAST);
    let allowed = 1.3 * p50(NODE, NATIVE) + VOLUMES as f64 * 3.0 / PROCESSORS;
    let goal = |what: &str, reached, limit, unit: &str| Goal { what: what.to_owned(), reached, limit, unit: unit.to_owned() };
    let goals = vec![
        goal("stage and publish − shorefast mount", more, Limit::AtMost(3.0), "ms"),
        goal("volumes of 110 that were published", fewest as f64, Limit::AtLeast(VOLUMES as f64), ""),
        goal("110 volumes at once", p50(NODE, CSI), Limit::AtMost(allowed), "ms"),
        goal("the idle driver's PSS", memory, Limit::AtMost(15.0 * 1024.0), "kB"),
    ];
    drop(driver);
    Ok(Measured {
        title: "CSI: volumes for pods".to_owned(),
        note: "110 at once may take 1.3 × what 110 native mounts at once take, and 3 ms of CPU for each on two processors.".to_owned(),
        unit: Unit::Milliseconds,
        series,
        goals,
    })
}

fn one_volume(host: &Host, driver: &Driver, calm: &Calm, n: usize) -> Result<Vec<Series>> {
    let filesystem = Filesystem::bindfs(host);
    let native = Way::native(&filesystem, &host.directory("native"));
    let mount = Way::shorefast(host, &filesystem, &host.directory("mount"));
    let volume = Volume::new(driver, &filesystem, 0)?;
    let by_way = |way: &Way| -> Result<f64> {
        let live = way.mount()?;
        let took = live.took;
        live.end()?;
        Ok(took.as_secs_f64() * 1e3)
    };
    let by_driver = || -> Result<f64> {
        let begun = Instant::now();
        driver.call(STAGE, &volume.stage)?;
        driver.call(PUBLISH, &volume.publish)?;
        let took = begun.elapsed();
        volume.end(driver)?;
        Ok(took.as_secs_f64() * 1e3)
    };
    let mut series = [Series::new(ONE, NATIVE), Series::new(ONE, SHOREFAST), Series::new(ONE, CSI)];
    // The first round is not measured: what is used for the first time is read from the disk.
    for round in 0..=n {
        for index in super::rounds::order(round, vec![0, 1, 2]) {
            let took = match index {
                0 => by_way(&native),
                1 => by_way(&mount),
                _ => by_driver(),
            }?;
            driver.rest(calm)?;
            if round > 0 {
                series[index].values.push(took);
            }
        }
    }
    Ok(series.into())
}

/// All are asked for before any is waited for.
fn full_node(host: &Host, driver: &Driver, calm: &Calm) -> Result<(Vec<Series>, usize)> {
    let filesystem = Filesystem::bindfs(host);
    let native: Vec<_> =
        (0..VOLUMES).map(|number| Way::native(&filesystem, &host.directory(Path::new("many").join(number.to_string())))).collect();
    let volumes: Vec<_> = (0..VOLUMES).map(|number| Volume::new(driver, &filesystem, number)).collect::<Result<_>>()?;
    let mut series = [Series::new(NODE, NATIVE), Series::new(NODE, CSI)];
    let mut fewest = VOLUMES;
    for _ in 0..TIMES {
        let begun = Instant::now();
        let children = native.iter().map(|way| way.command()?.spawn().context("cannot start the client")).collect::<Result<Vec<_>>>()?;
        for mut child in children {
            ensure!(child.wait()?.success(), "a native mount failed");
        }
        series[0].values.push(begun.elapsed().as_secs_f64() * 1e3);
        native.iter().try_for_each(Way::unmount)?;
        driver.rest(calm)?;
        let begun = Instant::now();
        let channel = &driver.channel;
        // As kubelet does it: each volume is published when it is staged.
        let staged: Vec<_> = volumes.iter().map(|volume| channel.begin::<Empty>(STAGE, &volume.stage, None)).collect();
        let published: Vec<_> = staged
            .into_iter()
            .zip(&volumes)
            .map(|(staged, volume)| {
                let staged = channel.end(staged);
                (staged, channel.begin::<Empty>(PUBLISH, &volume.publish, None))
            })
            .collect();
        let good =
            published.into_iter().filter(|(staged, _)| staged.is_ok()).filter_map(|(_, published)| channel.end(published).ok()).count();
        series[1].values.push(begun.elapsed().as_secs_f64() * 1e3);
        fewest = fewest.min(good);
        volumes.iter().try_for_each(|volume| volume.end(driver))?;
        driver.rest(calm)?;
    }
    Ok((series.into(), fewest))
}

const STAGE: &str = "/csi.v1.Node/NodeStageVolume";
const PUBLISH: &str = "/csi.v1.Node/NodePublishVolume";

struct Volume {
    stage: NodeStageVolumeRequest,
    publish: NodePublishVolumeRequest,
}

impl Volume {
    fn new(driver: &Driver, filesystem: &Filesystem, number: usize) -> Result<Self> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("our own paths are text");
        let (staging, pod) = (driver.root.join(format!("staged/{number}")), driver.root.join(format!("pods/{number}")));
        for directory in [&staging, &pod] {
            fs::create_dir_all(directory)?;
        }
        let volume_id = format!("volume-{number}");
        let source = filesystem.source.to_str().context("our own paths are text")?;
        let volume_context = [("type", filesystem.name), ("source", source)].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let volume_capability = Some(VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
        });
        let stage = NodeStageVolumeRequest {
            volume_id: volume_id.clone(),
            staging_target_path: text(&staging)?,
            volume_capability: volume_capability.clone(),
            volume_context,
            ..Default::default()
        };
        let publish = NodePublishVolumeRequest {
            volume_id,
            staging_target_path: stage.staging_target_path.clone(),
            target_path: text(&pod.join("mount"))?,
            volume_capability,
            volume_context: stage.volume_context.clone(),
            ..Default::default()
        };
        Ok(Self { stage, publish })
    }

    fn end(&self, driver: &Driver) -> Result<()> {
        let (volume_id, target_path) = (self.stage.volume_id.clone(), self.publish.target_path.clone());
        driver.call("/csi.v1.Node/NodeUnpublishVolume", &NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path })?;
        let staging_target_path = self.stage.staging_target_path.clone();
        driver.call("/csi.v1.Node/NodeUnstageVolume", &NodeUnstageVolumeRequest { volume_id, staging_target_path })
    }
}

/// Dropped: ended.
struct Driver {
    root: PathBuf,
    server: Child,
    channel: Channel,
}

impl Driver {
    fn start(host: &Host) -> Result<Self> {
        let root = host.directory("kubelet");
        let mut command = Command::new(host.binary());
        command.arg("--root").arg(store()).args(["serve", "--csi", "--kubelet-root"]).arg(&root).stdin(Stdio::null()).stdout(Stdio::null());
        let server = command.spawn().context("cannot start the driver")?;
        let socket = root.join("plugins/csi.shorefast.dev/csi.sock");
        wait::until("the driver's socket", || socket.exists().then_some(()));
        let driver = Self { root, server, channel: Channel::open(&socket) };
        // It has what it keeps for the next request before anything is measured.
        let nothing = NodeUnpublishVolumeRequest { volume_id: "x".to_owned(), target_path: format!("{}/x", driver.root.display()) };
        driver.call("/csi.v1.Node/NodeUnpublishVolume", &nothing)?;
        thread::sleep(Duration::from_millis(200));
        Ok(driver)
    }

    fn call(&self, method: &str, message: &impl prost::Message) -> Result<()> {
        let answer: Answer<Empty> = self.channel.call(method, message);
        match answer {
            Ok(_) => Ok(()),
            Err(refused) => bail!("{method}: {refused:?}"),
        }
    }

    /// Nothing is left of the run before, but the process that the driver has started for the next request.
    fn rest(&self, calm: &Calm) -> Result<()> {
        let is_calm = || {
            let own = self.processes();
            calm.newcomers().iter().all(|process| own.contains(process)).then_some(())
        };
        wait::within(TO_REST, is_calm).context("still running after the unmount")?;
        thread::sleep(AFTERWARDS);
        Ok(())
    }

    /// The server, and its children.
    fn processes(&self) -> Vec<Process> {
        let server = Process { pid: self.server.id() };
        let own = server.pid.to_string();
        let children = processes::on_this_network().into_iter().filter(|process| process.status("PPid").as_deref() == Some(&own));
        children.chain([server]).collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.server.kill().and_then(|()| self.server.wait());
    }
}
