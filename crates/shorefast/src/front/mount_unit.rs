//! `mount --unit`: prints a systemd unit that would make the mount, instead of mounting.

use std::process::ExitCode;

use shorefast_engine::client::{self, Client};
use shorefast_engine::configuration::Configuration;
use shorefast_engine::options::{self, Item};
use shorefast_engine::request::Request;
use shorefast_engine::{Error, Kind, secret};
use shorefast_install::Error as UnitError;
use shorefast_install::mount_unit::{self, Mount};

use crate::report;
use crate::report::print;

pub fn write(request: &Request, configuration: &Configuration) -> Result<ExitCode, Error> {
    let fstype = request.fstype.as_deref().ok_or(Error::NoType)?;
    // The unit calls mount.TYPE, which only mounts what a client lists.
    let client = client::by_type(fstype, configuration)?;
    if let Some(name) = secret_option(&request.options, &client)? {
        return Err(Error::SecretInUnit { name });
    }
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

/// An option that holds a secret: by the client's definition, or by its name.
fn secret_option(options: &str, client: &Client) -> Result<Option<String>, Error> {
    let known = client.definition.secret.iter().flat_map(|way| &way.from_options);
    let known: Vec<_> = known.collect();
    let is_secret = |item: &Item| {
        let shown = options::join_redacted(std::slice::from_ref(item));
        known.contains(&&item.name) || shown != options::join(std::slice::from_ref(item))
    };
    let items = options::parse(options)?.items;
    Ok(items.into_iter().filter(|item| item.name != secret::OPTION).find(is_secret).map(|item| item.name))
}
