//! Protocols in, requests out. Nothing is decided here.

pub mod internal;
pub mod cli;
pub mod client;
pub mod demo;
pub mod doctor;
pub mod image;
pub mod install;
pub mod build;
pub mod outdated;
pub mod serve;
pub mod mounter;
pub mod mount_helper;
pub mod umount_helper;
pub mod mount_unit;
pub mod mount_words;
pub mod words;
pub mod common_words;
pub mod spelling;
pub mod timeout;
pub mod places;
pub mod image_limits;
pub mod enter_host;
pub mod progress;
pub mod show;
pub mod called_as;
pub mod redact_argv;
