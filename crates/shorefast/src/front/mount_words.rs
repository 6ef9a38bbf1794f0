//! What can be said to `mount`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use shorefast_engine::mode::Mode;

use crate::front::timeout::Timeout;

#[derive(Debug, Default, Args)]
pub struct MountArguments {
    /// The filesystem type; default: the first type of the chosen client
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub fstype: Option<String>,
    /// Mount options, separated by commas; may be given more than once
    #[arg(short, long, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// The secret (a password, a key) is in this file; `-` reads standard input, a pipe will do. The client gets it in a file of
    /// its own, as its definition says
    #[arg(long, value_name = "FILE", conflicts_with = "secret_fd")]
    pub secret_file: Option<PathBuf>,
    /// The same from a descriptor that the caller left open
    #[arg(long, value_name = "N")]
    pub secret_fd: Option<u32>,
    /// Use the client definition of this name
    #[arg(long, value_name = "NAME", conflicts_with = "client_file")]
    pub client: Option<String>,
    /// Use this client definition
    #[arg(long, value_name = "FILE")]
    pub client_file: Option<PathBuf>,
    /// Use this image instead of the definition's: NAME[:TAG] of a registry, oci:DIR, oci-archive:FILE,
    /// docker-archive:FILE, packages:DISTRIBUTION/SUITE?PACKAGE, tar:FILE or dir:ROOTFS
    #[arg(long, value_name = "REF")]
    pub image: Option<String>,
    /// Run the client in this container, which runs already: NAME or LABEL=VALUE, and before it, if it matters, docker:,
    /// podman: or containerd:
    #[arg(long, value_name = "CONTAINER", conflicts_with = "image")]
    pub container: Option<String>,
    /// Where the client runs: in a sandbox (container), from its image with all rights of root (chroot), in a container that runs
    /// already (exec), or not at all but by mount(8)
    /// (host); auto: host if this host has a helper for the type. Default: what the client's definition says, else container
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(Mode::NAMES).try_map(|name| name.parse::<Mode>()))]
    pub mode: Option<Mode>,
    /// Mount also where a mount of ours is already, on top of it
    #[arg(long)]
    pub over: bool,
    /// Never ask the network: use only images that are here
    #[arg(long)]
    pub offline: bool,
    /// Print the plan as JSON and do nothing; needs no root
    #[arg(long)]
    pub dry_run: bool,
    /// Print a systemd unit that makes this mount, and do nothing; it needs /sbin/mount.TYPE (`install --helpers`)
    #[arg(long, conflicts_with_all = ["client", "client_file", "image", "container", "mode", "dry_run", "secret_file", "secret_fd"])]
    pub unit: bool,
    #[command(flatten)]
    pub timeout: Timeout,
    /// What to mount, as the client wants it: host:/path, //host/share, bucket, a directory
    pub source: OsString,
    /// The directory to mount it at
    pub target: PathBuf,
}
