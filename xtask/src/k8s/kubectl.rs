//! What the cluster is told and asked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use shorefast_tests::wait;

use crate::process;

pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String> {
        process::output(self.command().args(arguments))
    }

    /// None: it is not there, or not yet.
    pub(crate) fn get(&self, what: &[&str]) -> Option<Value> {
        let output = self.command().arg("get").args(what).args(["--output", "json"]).output().ok()?;
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// Whatever it says, for people.
    pub(crate) fn show(&self, arguments: &[&str]) -> String {
        self.run(arguments).unwrap_or_else(|error| format!("{error:#}\n"))
    }

    pub(crate) fn apply(&self, manifest: &str, scratch: &Path) -> Result<()> {
        let file = scratch.join("manifest.yaml");
        std::fs::write(&file, manifest)?;
        self.run(&["apply", "--filename", file.to_str().context("our own path")?]).map(drop)
    }

    pub(crate) fn wait_until_ready(&self, patience: Duration) -> Result<()> {
        let ready = || self.run(&["get", "--raw", "/readyz"]).ok();
        wait::within(patience, ready).context("the API server does not become ready").map(drop)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", "/root").arg("--request-timeout=20s");
        command
    }
}
