//! The project's chores, as `cargo xtask CHORE`. In: a checkout and a Debian machine with Rust. Out: tests that ran.
//!
//! One file per chore; a new chore is a file with a `pub(crate) fn run(&Args) -> Result<ExitCode>` and a line in `Chore`.

mod bench;
mod bench_kernels;
mod ceph;
mod chaos;
mod clock;
mod dead_servers;
mod deploy_tools;
mod dist;
mod docker_plugin;
mod docker_volumes;
mod filtered;
mod fuzz;
mod generate;
mod guest;
mod hot;
mod k8s;
mod kernels;
mod matrix;
mod mutants;
mod posix;
mod setup;
mod soak;
mod test;

mod apt;
mod archive;
mod cache;
mod images;
mod parallel;
mod private_apt;
mod process;
mod s3_server;
mod scenarios;
mod static_binary;
mod tally;
mod warden;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Shorefast checkout")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install and build everything the tests need; a second call only looks
    Setup,
    /// Fetch the guest kernels that the tests run under
    Kernels,
    /// Run a command as root under a guest kernel
    Guest(guest::Args),
    /// Run the end-to-end tests on each guest kernel, and print a table
    #[command(name = "e2e-kernels")]
    Matrix(matrix::Args),
    /// Mounts whose server dies, stops or vanishes: a table of how long everything takes
    DeadServers(dead_servers::Args),
    /// CephFS against a real cluster, here and on each guest kernel: installs Ceph, takes ten minutes
    #[command(name = "e2e-ceph")]
    Ceph(ceph::Args),
    /// Check formatting and lints, then run every test here and on each guest kernel
    Test(test::Args),
    /// Kill `shorefast mount` at random times, and look for what it leaves behind
    Soak(soak::Args),
    /// A storm of mounts, umounts, kills and bad clients, with a seed; checks that nothing is left and no answer was false
    Chaos(chaos::Args),
    /// Plant security regressions one at a time, and show which test catches each: takes most of an hour
    Mutants(mutants::Args),
    /// pjdfstest and fsx through pass-through clients, ours beside the same clients as the host's root
    Posix(posix::Args),
    /// Run the fuzz targets
    Fuzz(fuzz::Args),
    /// Measure how fast mounts are, beside native clients and containers
    Bench(bench::Args),
    /// Run the scenarios of a Kubernetes node on a real cluster of one node
    E2eK8s(k8s::Args),
    /// Volumes with the real Docker and Podman, also what takes minutes: a hundred containers, ten clients, dead servers
    #[command(name = "e2e-docker")]
    DockerVolumes(docker_volumes::Args),
    /// Measure how fast kernel filesystems are mounted on the guest kernels, beside native clients
    BenchKernels(bench_kernels::Args),
    /// Write down what a mount executes, for the linker
    Hot,
    /// Make a release: static binaries, packages, images, checksums
    Dist(dist::Args),
    /// Make the directory of a managed plugin for Docker, of the static binary
    DockerPlugin(docker_plugin::Args),
    /// Write man pages and completions
    Generate(generate::Args),
    /// Run a command under a seccomp filter that allows everything: what the bench compares with
    #[command(hide = true)]
    Filtered(filtered::Args),
    /// End the guest machine that this runs in; the last thing that its init does
    #[command(hide = true)]
    PowerOff,
}

fn main() -> ExitCode {
    clock::start();
    match run(&Cli::parse().chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<ExitCode> {
    match chore {
        Chore::Setup => setup::run()?,
        Chore::Kernels => kernels::run()?,
        Chore::Guest(args) => return guest::run(args),
        Chore::Matrix(args) => return matrix::run(args),
        Chore::DeadServers(args) => return dead_servers::run(args),
        Chore::Ceph(args) => return ceph::run(args),
        Chore::Test(args) => return test::run(args),
        Chore::Soak(args) => return soak::run(args),
        Chore::Chaos(args) => return chaos::run(args),
        Chore::Mutants(args) => return mutants::run(args),
        Chore::Posix(args) => return posix::run(args),
        Chore::Fuzz(args) => return fuzz::run(args),
        Chore::Bench(args) => return bench::run(args),
        Chore::E2eK8s(args) => return k8s::run(args),
        Chore::DockerVolumes(args) => return docker_volumes::run(args),
        Chore::BenchKernels(args) => return bench_kernels::run(args),
        Chore::Hot => return hot::run(),
        Chore::Dist(args) => dist::run(args)?,
        Chore::DockerPlugin(args) => docker_plugin::run(args)?,
        Chore::Generate(args) => generate::run(args)?,
        Chore::Filtered(args) => return filtered::run(args),
        Chore::PowerOff => guest::power_off()?,
    }
    Ok(ExitCode::SUCCESS)
}
