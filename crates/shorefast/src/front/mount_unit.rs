//! `mount --unit`: prints a systemd unit that would make the mount, instead of mounting.

use std::process::ExitCode;

use shorefast_engine::request::Request;
use shorefast_engine::{Error, Kind};
use shorefast_install::Error as UnitError;
use shorefast_install::mount_unit::{self, Mount};

use crate::report;
use crate::report::print;

pub fn write(request: &Request) -> Result<ExitCode, Error> {
    let fstype = request.fstype.as_deref().ok_or(Error::NoType)?;
    let target = std::path::absolute(&request.target).unwrap_or_else(|_| request.target.clone());
    let source = request.source.to_str().ok_or_else(|| UnitError::NotForUnit { text: request.source.display().to_string() });
    match source.and_then(|source| mount_unit::text(&Mount { fstype, source, target: &target, options: &request.options })) {
        Ok(text) => {
            print(&text);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            report::say(&report::chain(&error, error.hint()));
            Ok(ExitCode::from(report::exit_code(Kind::Usage)))
        }
    }
}
