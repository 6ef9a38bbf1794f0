//! How options are written, and what is wrong with those that are given.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use lexopt::Arg;

/// How an option is written.
#[derive(Clone, Copy, Debug)]
pub struct Spelling<I> {
    pub id: I,
    pub short: Option<char>,
    pub long: Option<&'static str>,
    pub takes: Takes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Value,
    /// A value, each time it is given.
    Values,
}

impl<I> Spelling<I> {
    pub const fn flag(id: I, short: Option<char>, long: Option<&'static str>) -> Self {
        Self { id, short, long, takes: Takes::Nothing }
    }

    pub const fn value(id: I, short: Option<char>, long: Option<&'static str>) -> Self {
        Self { id, short, long, takes: Takes::Value }
    }

    pub const fn values(id: I, short: Option<char>, long: Option<&'static str>) -> Self {
        Self { id, short, long, takes: Takes::Values }
    }

    pub fn is(&self, word: &Arg<'_>) -> bool {
        match word {
            Arg::Short(letter) => self.short == Some(*letter),
            Arg::Long(name) => self.long == Some(*name),
            Arg::Value(_) => false,
        }
    }
}

/// Why the words are not a mount.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// Help or version, by this word.
    Asked(String),
    Wrong(String),
}

impl Problem {
    /// `command`: clap's definition of these words, which has the help.
    pub fn report(self, mut command: clap::Command) -> ExitCode {
        let error = match self {
            Self::Asked(word) => match command.try_get_matches_from_mut([word]) {
                Err(error) => error,
                Ok(_) => return ExitCode::SUCCESS,
            },
            Self::Wrong(why) => command.error(ErrorKind::ValueValidation, why),
        };
        // Help and version are not errors; everything else is mount(8)'s usage error.
        let _ = error.print();
        ExitCode::from(u8::from(error.use_stderr()))
    }
}

/// An option's value, with its name for errors.
#[derive(Debug)]
pub struct Value {
    name: String,
    value: OsString,
}

impl Value {
    pub fn new(name: String, value: OsString) -> Self {
        Self { name, value }
    }

    /// The parts of a list.
    pub fn split(self, separator: u8) -> impl Iterator<Item = Self> {
        let Self { name, value } = self;
        let parts: Vec<_> = value.as_bytes().split(|byte| *byte == separator).map(|part| OsString::from_vec(part.to_vec())).collect();
        parts.into_iter().map(move |part| Self::new(name.clone(), part))
    }

    pub fn text(self) -> Result<String, Problem> {
        let Self { name, value } = self;
        value.into_string().map_err(|value| Problem::Wrong(format!("the value {value:?} of {name} is not valid UTF-8")))
    }

    pub fn path(self) -> Result<PathBuf, Problem> {
        if self.value.is_empty() {
            Err(Problem::Wrong(format!("{} needs a path, but its value is empty", self.name)))
        } else {
            Ok(self.value.into())
        }
    }

    /// `parse`: gives its result, or why there is none.
    pub fn read<T, E: std::fmt::Display>(self, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Problem> {
        let name = self.name.clone();
        let text = self.text()?;
        parse(&text).map_err(|why| Problem::Wrong(format!("the value {text:?} of {name} cannot be used: {why}")))
    }
}
