//! The options that every front of a mount has, and their environment variables.

use std::ffi::OsString;
use std::path::PathBuf;

use shorefast_engine::configuration::ClientImage;
use shorefast_engine::definition::parse_size;

use crate::front::enter_host;
use crate::front::image_limits::LimitArguments;
use crate::front::places::Places;
use crate::front::spelling::{Problem, Spelling, Value};
use crate::front::timeout::Timeout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonOption {
    RunDir,
    Root,
    Clients,
    ClientImage,
    HostProc,
    MaxImageSize,
    MaxImageEntries,
    Timeout,
}

pub const COMMON: &[Spelling<CommonOption>] = &[
    Spelling::value(CommonOption::RunDir, None, Some("run-dir")),
    Spelling::value(CommonOption::Root, None, Some("root")),
    Spelling::values(CommonOption::Clients, None, Some("clients")),
    Spelling::values(CommonOption::ClientImage, None, Some("client-image")),
    Spelling::value(CommonOption::HostProc, None, Some("host-proc")),
    Spelling::value(CommonOption::MaxImageSize, None, Some("max-image-size")),
    Spelling::value(CommonOption::MaxImageEntries, None, Some("max-image-entries")),
    Spelling::value(CommonOption::Timeout, None, Some("timeout")),
];

/// The variables that are used where the option is not given.
pub const VARIABLES: &[(CommonOption, &str)] = &[
    (CommonOption::RunDir, "SHOREFAST_RUN"),
    (CommonOption::Root, "SHOREFAST_ROOT"),
    (CommonOption::Clients, "SHOREFAST_CLIENTS"),
    (CommonOption::ClientImage, "SHOREFAST_CLIENT_IMAGE"),
    // Removed with its option before anything is parsed.
    (CommonOption::HostProc, enter_host::VARIABLE),
    (CommonOption::MaxImageSize, "SHOREFAST_MAX_IMAGE_SIZE"),
    (CommonOption::MaxImageEntries, "SHOREFAST_MAX_IMAGE_ENTRIES"),
    (CommonOption::Timeout, "SHOREFAST_TIMEOUT"),
];

/// What was given. `None` and empty: nothing.
#[derive(Debug, Default)]
pub struct Common {
    run_dir: Option<PathBuf>,
    root: Option<PathBuf>,
    clients: Vec<PathBuf>,
    client_image: Vec<ClientImage>,
    host_proc: Option<PathBuf>,
    max_image_size: Option<u64>,
    max_image_entries: Option<u64>,
    timeout: Option<Timeout>,
}

impl Common {
    pub fn set(&mut self, option: CommonOption, value: Value) -> Result<(), Problem> {
        match option {
            CommonOption::RunDir => self.run_dir = Some(value.path()?),
            CommonOption::Root => self.root = Some(value.path()?),
            CommonOption::Clients => self.clients.extend(value.split(b':').map(Value::path).collect::<Result<Vec<_>, _>>()?),
            CommonOption::ClientImage => {
                let images = value.split(b' ').map(|image| image.read(|text| text.parse::<ClientImage>()));
                self.client_image.extend(images.collect::<Result<Vec<_>, _>>()?);
            }
            CommonOption::HostProc => self.host_proc = Some(value.path()?),
            CommonOption::MaxImageSize => self.max_image_size = Some(value.read(parse_size)?),
            CommonOption::MaxImageEntries => self.max_image_entries = Some(value.read(str::parse::<u64>)?),
            CommonOption::Timeout => self.timeout = Some(value.read(Timeout::read)?),
        }
        Ok(())
    }

    fn is_set(&self, option: CommonOption) -> bool {
        match option {
            CommonOption::RunDir => self.run_dir.is_some(),
            CommonOption::Root => self.root.is_some(),
            CommonOption::Clients => !self.clients.is_empty(),
            CommonOption::ClientImage => !self.client_image.is_empty(),
            CommonOption::HostProc => self.host_proc.is_some(),
            CommonOption::MaxImageSize => self.max_image_size.is_some(),
            CommonOption::MaxImageEntries => self.max_image_entries.is_some(),
            CommonOption::Timeout => self.timeout.is_some(),
        }
    }

    /// `variable`: the environment. An option overrides its variable, which overrides the default.
    pub fn finish(mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(Places, Timeout), Problem> {
        for (option, name) in VARIABLES {
            if let Some(value) = variable(name).filter(|_| !self.is_set(*option)) {
                self.set(*option, Value::new((*name).to_owned(), value))?;
            }
        }
        let usual = Places::default();
        let places = Places {
            run_dir: self.run_dir.unwrap_or(usual.run_dir),
            root: self.root.unwrap_or(usual.root),
            clients: if self.clients.is_empty() { usual.clients } else { self.clients },
            client_image: self.client_image,
            host_proc: self.host_proc,
            limits: LimitArguments::with(self.max_image_size, self.max_image_entries),
        };
        Ok((places, self.timeout.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value::new("--x".to_owned(), text.into())
    }

    #[test]
    fn an_option_counts_more_than_its_variable_and_that_more_than_the_default() {
        let variable = |name: &str| match name {
            "SHOREFAST_ROOT" => Some("/variable".into()),
            "SHOREFAST_RUN" => Some("/run/variable".into()),
            "SHOREFAST_CLIENTS" => Some("/a:/b".into()),
            "SHOREFAST_CLIENT_IMAGE" => Some("nfs=x cifs=y".into()),
            "SHOREFAST_TIMEOUT" => Some("2m".into()),
            _ => None,
        };
        let mut common = Common::default();
        common.set(CommonOption::Root, value("/option")).unwrap();
        let (places, timeout) = common.finish(variable).unwrap();
        assert_eq!((places.root.to_str(), places.run_dir.to_str()), (Some("/option"), Some("/run/variable")));
        assert_eq!((places.clients.len(), places.client_image.len(), timeout.limit().as_secs()), (2, 2, 120));
        let (places, timeout) = Common::default().finish(|_| None).unwrap();
        assert_eq!(format!("{places:?} {timeout:?}"), format!("{:?} {:?}", Places::default(), Timeout::default()));
    }

    #[test]
    fn what_cannot_be_used_names_its_option() {
        let rows = [
            (CommonOption::Root, ""),
            (CommonOption::Clients, "/a::/b"),
            (CommonOption::ClientImage, "nfs"),
            (CommonOption::MaxImageSize, "0"),
            (CommonOption::MaxImageEntries, "-1"),
            (CommonOption::Timeout, "0"),
        ];
        for (option, text) in rows {
            let Err(Problem::Wrong(why)) = Common::default().set(option, value(text)) else { panic!("{option:?} {text}") };
            assert!(why.contains("--x"), "{why}");
        }
    }
}
