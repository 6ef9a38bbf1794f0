//! The pipeline: request, plan, sandbox, broker, attach, record, supervise, unmount.
//!
//! Start reading at [`mount`]: it shows the whole sequence on one page. Nothing after [`plan`] reads configuration, environment or the
//! network. Synchronous throughout: no cancelled task can leave a mount half made.

pub mod purge;
pub mod enter_host;
pub mod heal;
pub mod upgrade;
pub mod successor;
pub mod mount;
pub mod bring_up;
pub mod start;
pub mod remembered;
pub mod client_root;
pub mod serve;
pub mod mount_source;
pub mod refresh;
pub mod release;
pub mod existing;
pub mod usage;
pub mod unserved;
pub mod elsewhere;
pub mod publish;
pub mod unmount;
pub mod hang;
pub mod list;
pub mod find;
pub mod installation;
pub mod images;
pub mod reconcile;
pub mod takeover;
pub mod draining;
pub mod services;
pub mod recover;
pub mod keeper;
pub mod state;
pub mod replace;
pub mod answer;
pub mod origin;
pub mod target_lock;
pub mod attach;
pub mod source_file;
pub mod records;
pub mod past;
pub mod record;
pub mod journal;
pub mod kernel;
pub mod last_words;
pub mod plan;
pub mod recipe;
pub mod process;
pub mod server;
pub mod host_mount;
pub mod secret;
pub mod client;
pub mod configuration;
pub mod last_good;
pub mod catalogue;
pub mod definition;
pub mod exit_policy;
pub mod options;
pub mod request;
pub mod mode;
pub mod host_helper;
pub mod kill_point;
pub mod error;
pub mod difference;
pub use shorefast_image::nearest;
pub mod client_end;
pub mod wait_status;
pub mod text;

pub use error::{Error, Kind};
pub use installation::Installation;
pub use plan::Plan;
pub use request::Request;

/// Where one installation keeps its files.
#[derive(Clone, Debug)]
pub struct Host {
    /// Records of live mounts: gone after a reboot, like the mounts.
    pub run_dir: std::path::PathBuf,
    pub images: shorefast_image::Store,
    pub network: shorefast_image::store::Network,
}
