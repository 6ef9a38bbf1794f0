//! The binary, as a library so that man pages and completions come from the same definitions.

pub mod front {
    //! Protocols in, requests out. Nothing is decided here.
    pub mod cli;
    pub mod client;
    pub mod demo;
    pub mod redact_argv;
    pub mod doctor;
    pub mod image;
    pub mod install;
    pub mod build;
    pub mod mounter;
    pub mod mount_helper;
    pub mod umount_helper;
    pub mod called_as;
    pub mod internal;
    pub mod mount_unit;
    pub mod enter_host;
    pub mod fast_args;
    pub mod mount_words;
    pub mod timeout;
    pub mod places;
    pub mod progress;
    pub mod show;
}
pub mod report;
