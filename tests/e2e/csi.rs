//! The CSI driver, as kubelet uses it: the shipped binary, real clients, calls over its socket.

#[path = "csi/identity.rs"]
mod identity;
#[path = "csi/staging.rs"]
mod staging;
#[path = "csi/conformance.rs"]
mod conformance;
#[path = "csi/refusals.rs"]
mod refusals;
#[path = "csi/inline.rs"]
mod inline;
#[path = "csi/secrets.rs"]
mod secrets;
#[path = "csi/requests.rs"]
mod requests;
#[path = "csi/service.rs"]
mod service;
#[path = "csi/health.rs"]
mod health;
#[path = "csi/silence.rs"]
mod silence;
#[path = "csi/statistics.rs"]
mod statistics;
#[path = "csi/group.rs"]
mod group;
#[path = "csi/dead.rs"]
mod dead;
#[path = "csi/metrics.rs"]
mod metrics;
#[path = "csi/deploy.rs"]
mod deploy;
#[path = "csi/provisioning.rs"]
mod provisioning;
#[path = "csi/kubelet.rs"]
mod kubelet;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use shorefast_tests::Host;
use shorefast_tests::channel::{Answer, Refused};
use shorefast_tests::client::define_script;

/// gRPC's codes.
const CANCELLED_OR_LATE: [u32; 2] = [1, 4];
const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const ALREADY_EXISTS: u32 = 6;
const PERMISSION_DENIED: u32 = 7;
const FAILED_PRECONDITION: u32 = 9;
const ABORTED: u32 = 10;
const OUT_OF_RANGE: u32 = 11;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

#[track_caller]
fn refused<Out: std::fmt::Debug>(answer: Answer<Out>, code: u32) -> String {
    let Refused(got, said) = answer.expect_err("it is refused");
    assert_eq!(got, code, "{said}");
    said
}

/// As in the mount table: kubelet's root is reached through a link.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).expect("it is there")
}

/// bindfs runs as a user of its own.
fn open_directory(host: &Host) -> PathBuf {
    let directory = host.directory("source");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("the test's own directory");
    directory
}

const SCRIPT: [(&str, &str); 2] = [("type", "script"), ("source", "server:/x")];
