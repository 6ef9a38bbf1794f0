//! HTTP for images and packages: a request in, a small response or a verified file out; or a file in, sent to a server.
//!
//! The server is taken to be hostile or broken: it may lie about sizes, send other bytes, stall, cut the connection or redirect. A download
//! counts only when size and hash are right, every wait has a deadline, and credentials go only to the host they were meant for.

pub mod download;
pub mod send;
pub mod client;
pub mod part;
pub mod redirect;
pub mod retry;
pub mod pace;
pub mod tls;
pub mod names;
pub mod settings;
pub mod proxy;
pub mod request;
pub mod hash;
pub mod progress;
pub mod error;

pub use client::{Answer, Client};
pub use download::{Download, Size};
pub use error::Error;
pub use hash::{Hash, Hasher};
pub use progress::{Progress, Silent, Task};
pub use proxy::Proxies;
pub use request::Request;
pub use send::{Method, Payload};
pub use settings::{PlainHttp, Settings};
pub use url::Url;
