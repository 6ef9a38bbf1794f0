//! umount(8)'s helper, `umount.TYPE DIR [-nlfvr] [-t TYPE.SUBTYPE] [-N NAMESPACE]`, in any order.
//!
//! Mounts that are not ours are left to umount(8): `-i` keeps it from calling us again.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use shorefast_engine::records::Records;
use shorefast_engine::unmount::{self, Manner};
use shorefast_engine::{Error, Kind};

use crate::front::places::Places;
use crate::report;

#[derive(Debug, Parser)]
#[command(no_binary_name = true, args_override_self = true, version)]
struct Words {
    #[command(flatten)]
    places: Places,
    /// Detach now; the mount ends when it is no longer in use
    #[arg(short)]
    lazy: bool,
    /// Unmount in any case: users of the mount get errors
    #[arg(short)]
    force: bool,
    /// Report what was done
    #[arg(short)]
    verbose: bool,
    /// If the mount is in use, make it read-only instead
    #[arg(short)]
    read_only: bool,
    /// The target's mount namespace, as the path of a descriptor
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// Accepted and ignored: there is no mtab
    #[arg(short)]
    no_mtab: bool,
    /// Accepted and ignored: the mount's type is known
    #[arg(short = 't', value_name = "TYPE")]
    fstype: Option<String>,
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

#[inline(never)]
pub fn run(named: &str, arguments: &[OsString]) -> ExitCode {
    let name = format!("umount.{named}");
    let usage = format!("{name} TARGET [-nlfvr] [-t TYPE] [-N NAMESPACE]");
    let command = Words::command().name(name.clone()).override_usage(usage);
    let words = command.try_get_matches_from(arguments.iter().skip(1)).and_then(|matches| Words::from_arg_matches(&matches));
    match words {
        Ok(words) => words.carry_out(),
        Err(error) => {
            let _ = error.print();
            ExitCode::from(u8::from(error.use_stderr()))
        }
    }
}

impl Words {
    fn carry_out(self) -> ExitCode {
        let records = Records::at(&self.places.run_dir);
        // Only umount(8) can remount read-only on EBUSY and enter a namespace; our keeper notices both.
        if self.read_only || self.namespace.is_some() {
            return self.plain_umount();
        }
        let manner = match (self.lazy, self.force) {
            (true, _) => Manner::Lazy,
            (_, true) => Manner::Force,
            _ => Manner::Polite,
        };
        match unmount::unmount(&records, &self.target, manner) {
            Ok(_) => {
                if self.verbose {
                    report::print(&format!("umount: {} unmounted\n", self.target.display()));
                }
                ExitCode::SUCCESS
            }
            Err(Error::NotOurs { .. }) => self.plain_umount(),
            // umount(8)'s exact message, which scripts match.
            Err(Error::Unmount { path, source }) if source.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                report::say(&format!("umount: {}: target is busy.", path.display()));
                ExitCode::from(report::exit_code(Kind::Failed))
            }
            Err(error) => report::failure(&error),
        }
    }

    /// Executes umount(8) in our place.
    fn plain_umount(&self) -> ExitCode {
        let flags = [("-n", self.no_mtab), ("-l", self.lazy), ("-f", self.force), ("-v", self.verbose), ("-r", self.read_only)];
        let mut command = Command::new("umount");
        command.arg("-i").args(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag));
        if let Some(namespace) = &self.namespace {
            command.arg("-N").arg(namespace);
        }
        let error = command.arg("--").arg(&self.target).exec();
        report::say(&format!("shorefast: umount(8) cannot be run: {error}"));
        ExitCode::from(report::exit_code(Kind::Internal))
    }
}
