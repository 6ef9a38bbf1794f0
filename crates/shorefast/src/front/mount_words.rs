//! The arguments of `mount`.

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
    /// Read the secret (a password, a key) from this file, which may be a pipe; `-` reads standard input. The client gets it in a private
    /// file, as its definition says
    #[arg(long, value_name = "FILE", conflicts_with = "secret_fd")]
    pub secret_file: Option<PathBuf>,
    /// The same from an open file descriptor of the caller
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
    /// Run the client in this running container: NAME or LABEL=VALUE, optionally prefixed by docker:, podman: or containerd:
    #[arg(long, value_name = "CONTAINER", conflicts_with = "image")]
    pub container: Option<String>,
    /// Where the client runs: in a sandbox (container), from its image with all rights of root (chroot), in a running container (exec), or
    /// not at all, but mount(8) is used (host); auto: host if this host has a helper for the type. Default: what the client's definition
    /// says, else container
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(Mode::NAMES).try_map(|name| name.parse::<Mode>()))]
    pub mode: Option<Mode>,
    /// Mount on top of an existing mount of ours
    #[arg(long)]
    pub over: bool,
    /// Never use the network: use only images that are in the store
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
    /// What to mount, in the client's syntax: host:/path, //host/share, bucket, a directory
    pub source: OsString,
    /// The directory to mount it at
    pub target: PathBuf,
}
