//! HTTP for those who fetch images and packages: a request in, a small answer or a verified file out.
//!
//! The other side is hostile or broken: it may lie about sizes, send other bytes, stall, cut the
//! connection or point elsewhere. What is downloaded counts only when size and hash are right, every
//! wait has an end, and credentials go to the host they were meant for and to nobody else.

pub mod download;
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
pub use settings::{PlainHttp, Settings};
pub use url::Url;
