//! How long a mount may take: the same for every front.

use std::time::Duration;

use clap::Args;
use shorefast_engine::request::DEFAULT_TIMEOUT;

#[derive(Debug, Args)]
pub struct Timeout {
    /// Give up after this time, such as 30s or 2m
    #[arg(long, value_name = "TIME", env = "SHOREFAST_TIMEOUT", value_parser = parse, default_value_t = DEFAULT_TIMEOUT.into())]
    timeout: humantime::Duration,
}

impl Default for Timeout {
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT.into() }
    }
}

impl Timeout {
    pub fn read(text: &str) -> Result<Self, String> {
        Ok(Self { timeout: parse(text)? })
    }

    pub fn limit(&self) -> Duration {
        self.timeout.into()
    }
}

/// `30s`, `2m`; a plain number is seconds.
pub fn parse(text: &str) -> Result<humantime::Duration, String> {
    let duration = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds).into(),
        Err(_) => text.parse::<humantime::Duration>().map_err(|error| error.to_string())?,
    };
    if duration.is_zero() { Err("must be greater than zero".to_owned()) } else { Ok(duration) }
}
