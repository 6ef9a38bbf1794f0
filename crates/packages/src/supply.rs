//! In: addresses and checksums. Out: files in the cache, named by checksum: fetched once, in parallel, verified during the download.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use shorefast_net as net;

use crate::deb;
use crate::error::Error;

/// Enough to fill a line, and not more than a mirror tolerates.
const AT_ONCE: usize = 6;

#[derive(Clone, Copy)]
pub struct Supply<'a> {
    /// Where everything is kept; only we write there.
    pub cache: &'a Path,
    pub network: Network<'a>,
    pub progress: &'a dyn net::Progress,
}

#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    Use(&'a net::Client),
    Avoid,
}

impl std::fmt::Debug for Supply<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Supply").field("cache", &self.cache).field("network", &self.network).finish_non_exhaustive()
    }
}

/// A file that is identified by its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// For display.
    pub name: String,
    /// Where it is, best first.
    pub urls: Vec<String>,
    pub size: u64,
    pub sha256: String,
}

impl Supply<'_> {
    /// A small file, never cached. `None`: it does not exist.
    pub fn small(&self, url: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        if let Some(path) = local(url) {
            let mut content = Vec::new();
            return match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut content)) {
                Ok(_) => Ok(Some(content)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(source) => Err(Error::Read { path: path.to_owned(), source }),
            };
        }
        let Network::Use(client) = self.network else { return Err(Error::Offline { what: url.to_owned() }) };
        let failed = |source| Error::Fetch { what: url.to_owned(), source };
        let answer = client.get(&net::Request::parse(url).map_err(failed)?, limit).map_err(failed)?;
        if answer.status == 404 { Ok(None) } else { answer.success().map(Some).map_err(failed) }
    }

    /// The local paths of all files, in order.
    pub fn files(&self, wanted: &[Wanted]) -> Result<Vec<PathBuf>, Error> {
        let directory = self.cache.join("sha256");
        fs::create_dir_all(&directory).map_err(|source| Error::Cache { path: directory.clone(), source })?;
        let places: Vec<_> = wanted.iter().map(|file| directory.join(&file.sha256)).collect();
        let mut missing = Vec::new();
        for (file, place) in wanted.iter().zip(&places) {
            if !is_there(place, file.size) && !self.copied(file, place)? {
                missing.push((file, place));
            }
        }
        self.download(&missing)?;
        Ok(places)
    }

    fn download(&self, missing: &[(&Wanted, &PathBuf)]) -> Result<(), Error> {
        let Some((first, _)) = missing.first() else { return Ok(()) };
        let Network::Use(client) = self.network else { return Err(Error::Offline { what: first.name.clone() }) };
        let failed = |source| Error::Fetch { what: first.name.clone(), source };
        let mut sources = Vec::new();
        for (file, _) in missing {
            let requests: Result<Vec<_>, _> =
                file.urls.iter().filter(|url| local(url).is_none()).map(|url| net::Request::parse(url)).collect();
            let hash = format!("sha256:{}", file.sha256).parse().map_err(failed)?;
            sources.push((requests.map_err(failed)?, hash));
        }
        let downloads: Vec<_> = missing
            .iter()
            .zip(&sources)
            .map(|((file, place), (requests, hash))| net::Download {
                what: &file.name,
                sources: requests,
                to: place,
                size: net::Size::Exactly(file.size),
                hash: Some(*hash),
            })
            .collect();
        client.download_all(&downloads, AT_ONCE, self.progress).map_err(|source| Error::Fetch { what: "the packages".to_owned(), source })
    }

    /// From a mirror on this machine. False: it is not there.
    fn copied(&self, file: &Wanted, place: &Path) -> Result<bool, Error> {
        for (url, path) in file.urls.iter().filter_map(|url| Some((url, local(url)?))) {
            let content = match fs::read(path) {
                Ok(content) => content,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
            };
            let right = content.len() as u64 == file.size && deb::sha256_of(&mut &content[..]).is_ok_and(|sum| sum == file.sha256);
            if !right {
                return Err(Error::Tampered { url: url.clone() });
            }
            return write_whole(place, &content).map(|()| true);
        }
        // All sources are local, so there is no other to try.
        match file.urls.iter().find(|_| file.urls.iter().all(|url| local(url).is_some())) {
            Some(url) => Err(Error::Read { path: local(url).unwrap_or(place).to_owned(), source: ErrorKind::NotFound.into() }),
            None => Ok(false),
        }
    }
}

/// A truncated file is fetched again. The content is verified when it is read.
fn is_there(place: &Path, size: u64) -> bool {
    match fs::metadata(place) {
        Ok(metadata) if metadata.len() == size => true,
        Ok(_) => fs::remove_file(place).is_err(),
        Err(_) => false,
    }
}

/// The path of a `file:` address.
fn local(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("file:")?;
    Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
}

/// Atomic: the file appears complete or not at all, even after a power failure.
pub fn write_whole(place: &Path, content: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::Cache { path: place.to_owned(), source };
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    // Two processes or threads may write the same file at once.
    let half = place.with_extension(format!("{}.{:?}.part", std::process::id(), std::thread::current().id()));
    let written = File::create(&half).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&half, place)).map_err(|source| {
        let _ = fs::remove_file(&half);
        failed(source)
    })
}
