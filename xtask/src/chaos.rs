//! `cargo xtask chaos`: a storm of everything that callers, clients, administrators and the kernel do to mounts, with a seed, so that it
//! can be had again. After each round the kernel is asked whether anything is left, and every answer that can be checked was checked.
//!
//! A round is one of two kinds: stories, at targets that no other process uses, where each answer must be true (`story`); or a storm, at
//! targets that all share, with kills, stops and a broken run directory (`storm`), where only what holds at its end is known (`verdict`).

mod call;
mod crowd;
mod random;
mod scene;
mod storm;
mod story;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use shorefast_tests::Host;

use crate::{process, setup};
use random::Random;
use scene::Scene;
use storm::{TROUBLES, Trouble};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long it rages
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Repeat a run: the seed that it printed
    #[arg(long)]
    seed: Option<u64>,
    /// Only this round of it
    #[arg(long)]
    round: Option<u64>,
    /// So many callers at once
    #[arg(long, default_value_t = 6)]
    callers: u64,
    /// First, so many mounts that the kernel serves, and what they use of the host
    #[arg(long, default_value_t = 0)]
    mounts: usize,
    /// The binary that was built already
    #[arg(long, value_parser = |path: &str| std::path::absolute(path))]
    binary: Option<PathBuf>,
}

const STORIES: u64 = 6;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.binary.is_none() {
        setup::run()?;
        process::show(process::cargo().args(["build", "--quiet", "--package", "shorefast"]))?;
    }
    shorefast_tests::hostile::client();
    let seed = args.seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs()));
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs(args.minutes * 60);
    let mut findings = Vec::new();
    if args.mounts > 0 {
        findings.extend(on_a_host(args, |host, scene| crowd::gather(host, scene, args.mounts))?);
    }
    let mut rounds = 0;
    for number in args.round.map_or(0..u64::MAX, |only| only..only + 1) {
        if Instant::now() >= end {
            break;
        }
        let found = round(args, seed, number)?;
        rounds += 1;
        for finding in &found {
            println!("seed {seed} round {number}: {finding}");
        }
        findings.extend(found);
    }
    println!("seed {seed}: {rounds} rounds, {} findings", findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn round(args: &Args, seed: u64, number: u64) -> Result<Vec<String>> {
    let mut random = Random::of(seed, number, 0);
    let started = Instant::now();
    let trouble = if random.below(2) == 0 { None } else { Some(*random.one_of(TROUBLES)) };
    let found = on_a_host(args, |host, scene| match trouble {
        None => stories(args, host, scene, seed, number),
        Some(trouble) => storm(args, host, scene, seed, number, trouble),
    })?;
    let what = trouble.map_or_else(|| "stories".to_owned(), |trouble| format!("storm, trouble: {trouble:?}"));
    println!("round {number}: {what}, {:.1} s, {} findings", started.elapsed().as_secs_f64(), found.len());
    Ok(found)
}

/// Each round has a host of its own: what one leaves behind cannot be blamed on the next.
fn on_a_host(args: &Args, body: impl FnOnce(&Host, &Scene)) -> Result<Vec<String>> {
    let host = match &args.binary {
        Some(binary) => Host::with_binary(binary.clone(), shorefast_tests::host::Root::Private),
        None => Host::new(),
    };
    let host = host.ok_or_else(|| anyhow!("this machine is not set up for it"))?;
    // Others may be at work on this machine: their control groups are none of ours.
    let groups = shorefast_tests::cgroups::Group::make();
    let _seen = groups.as_root();
    let scene = Scene::set(&host);
    host.settle();
    body(&host, &scene);
    Ok(scene.into_findings())
}

fn stories(args: &Args, host: &Host, scene: &Scene, seed: u64, number: u64) {
    // Each story has a target of its own: what one leaves behind does not spoil the next.
    let target = |caller, story| PathBuf::from(format!("/srv/of-{caller}-{story}/target"));
    std::thread::scope(|scope| {
        for caller in 0..args.callers {
            scope.spawn(move || {
                let mut random = Random::of(seed, number, 1 + caller);
                (0..STORIES).for_each(|story| story::tell(scene, &mut random, &target(caller, story)));
            });
        }
    });
    verdict::put_foreign(scene);
    let targets = (0..args.callers).flat_map(|caller| (0..STORIES).map(move |story| target(caller, story)));
    verdict::check(host, scene, &targets.collect::<Vec<_>>(), false);
}

fn storm(args: &Args, host: &Host, scene: &Scene, seed: u64, number: u64, trouble: Trouble) {
    let targets = storm::targets();
    targets.iter().for_each(|target| std::fs::create_dir_all(target).expect("a target of our own"));
    verdict::put_foreign(scene);
    if trouble == Trouble::NoRoom {
        std::fs::create_dir_all(&scene.run).expect("/run is our own");
        story::program(&["mount", "-t", "tmpfs", "-o", "size=128k,nr_inodes=24,mode=700", "none", &scene.run.to_string_lossy()]);
        host.settle();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let gremlin = scope.spawn(move || storm::disturb(scene, &mut Random::of(seed, number, 99), trouble, is_over));
        let callers: Vec<_> = (0..args.callers)
            .map(|caller| scope.spawn(move || storm::call_around(scene, &mut Random::of(seed, number, 1 + caller))))
            .collect();
        callers.into_iter().for_each(|caller| drop(caller.join()));
        is_over.store(true, Ordering::Release);
        drop(gremlin.join());
    });
    verdict::check(host, scene, &targets, trouble == Trouble::Records);
}
