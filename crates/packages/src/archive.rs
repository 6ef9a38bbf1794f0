//! In: an archive's address and keyring. Out: the text of its indexes; nothing unsigned is trusted.
//!
//! The chain: keyring → InRelease (or Release with Release.gpg) → checksums of the indexes → checksums of the packages.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shorefast_trust::Chosen;

use crate::built_in;
use crate::deb;
use crate::error::Error;
use crate::index;
use crate::release::{Listed, Release};
use crate::signature::Keyring;
use crate::sources::{Source, Trust};
use crate::supply::{Supply, Wanted, write_whole};

const RELEASE_LIMIT: u64 = 16 << 20;
/// Ten times the size of Debian's.
const INDEX_LIMIT: u64 = 512 << 20;

/// A verified archive.
#[derive(Clone, Debug)]
pub struct Archive {
    pub mirrors: Vec<String>,
    /// Its indexes, stripped; see [`index::strip`].
    pub indexes: Vec<String>,
}

/// All sources in parallel. Sources of an unexpected origin are left out.
pub fn open_all(sources: &[Source], architecture: &str, supply: &Supply<'_>, now: SystemTime) -> Result<Vec<Archive>, Error> {
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = sources.iter().map(|source| scope.spawn(|| open(source, architecture, supply, now))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    results.into_iter().filter_map(Result::transpose).collect()
}

/// Whether an archive can be reached and trusted. Fetches its signed list and nothing else.
pub fn look(source: &Source, supply: &Supply<'_>, now: SystemTime) -> Result<(), Error> {
    release(source, &keyring(&source.trust)?, None, supply, now).map(drop)
}

fn open(source: &Source, architecture: &str, supply: &Supply<'_>, now: SystemTime) -> Result<Option<Archive>, Error> {
    let keyring = keyring(&source.trust)?;
    let seen = Seen::of(source, supply.cache);
    let release = release(source, &keyring, seen.date(), supply, now)?;
    if source.only_origin.as_ref().is_some_and(|origin| !release.origin.eq_ignore_ascii_case(origin)) {
        return Ok(None);
    }
    let mut indexes = Vec::new();
    for component in &source.components {
        indexes.push(packages(source, &release, component, architecture, supply)?);
    }
    // Only now: an archive that turned out to be unusable must not lock out an older one that is usable.
    seen.remember(release.date)?;
    Ok(Some(Archive { mirrors: source.mirrors.clone(), indexes }))
}

fn keyring(trust: &Trust) -> Result<Keyring, Error> {
    let mut keyring = Keyring::default();
    match trust {
        Trust::Key(key) if keyring.add(key.as_bytes()) == 0 => return Err(Error::Keyring { path: PathBuf::from("Signed-By") }),
        Trust::Key(_) => {}
        Trust::BuiltIn => {
            let _all = built_in::KEYS.iter().map(|key| keyring.add(key)).sum::<usize>();
        }
        Trust::Files(files) => {
            let mut keys = 0;
            for file in files {
                keys += keyring
                    .add(&shorefast_trust::read(file, Chosen::ByCaller).map_err(|source| Error::Read { path: file.clone(), source })?);
            }
            if keys == 0 {
                return Err(Error::Keyring { path: files.first().cloned().unwrap_or_default() });
            }
        }
    }
    Ok(keyring)
}

/// From the first mirror that has a valid one; if none has, the error of the first.
fn release(source: &Source, keyring: &Keyring, seen: Option<SystemTime>, supply: &Supply<'_>, now: SystemTime) -> Result<Release, Error> {
    let mut first_failure = None;
    for mirror in &source.mirrors {
        let directory = format!("{mirror}/dists/{}", source.suite);
        let result = signed_text(&directory, keyring, supply, now).and_then(|(url, text)| {
            let wrong = |source| Error::Release { url: url.clone(), source };
            let release = Release::parse(&text).map_err(wrong)?;
            release.check(&source.suite, seen, now).map_err(wrong)?;
            Ok(release)
        });
        match result {
            Ok(release) => return Ok(release),
            Err(error) => first_failure = first_failure.or(Some(error)),
        }
    }
    Err(first_failure.unwrap_or(Error::NoArchive { suite: source.suite.clone() }))
}

fn signed_text(directory: &str, keyring: &Keyring, supply: &Supply<'_>, now: SystemTime) -> Result<(String, String), Error> {
    let url = format!("{directory}/InRelease");
    if let Some(content) = supply.small(&url, RELEASE_LIMIT)? {
        let text = keyring.open_clear_signed(&content, now).map_err(|source| Error::Signature { url: url.clone(), source })?;
        return Ok((url, text));
    }
    let url = format!("{directory}/Release");
    let content = supply.small(&url, RELEASE_LIMIT)?.ok_or_else(|| Error::NoRelease { url: url.clone() })?;
    let signature = supply.small(&format!("{url}.gpg"), RELEASE_LIMIT)?.unwrap_or_default();
    keyring.check_detached(&content, &signature, now).map_err(|source| Error::Signature { url: url.clone(), source })?;
    Ok((url, String::from_utf8_lossy(&content).into_owned()))
}

/// A component's index, stripped. Parsed once, then cached by the checksum of the original.
fn packages(source: &Source, release: &Release, component: &str, architecture: &str, supply: &Supply<'_>) -> Result<String, Error> {
    let directory = format!("{component}/binary-{architecture}");
    let found = [".xz", ".gz", ""].iter().find_map(|ending| {
        let path = format!("{directory}/Packages{ending}");
        release.file(&path).map(|listed| (path, listed))
    });
    let Some((path, listed)) = found else {
        let url = format!("{}/dists/{}", source.mirrors[0], source.suite);
        return Err(Error::NotOffered { url, component: component.to_owned(), architecture: architecture.to_owned() });
    };
    let kept = supply.cache.join("index").join(format!("{}-{}", listed.sha256, index::FORM));
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(text);
    }
    let file = &supply.files(&[wanted_index(source, release, &directory, &path, listed)])?[0];
    let url = format!("{}/dists/{}/{path}", source.mirrors[0], source.suite);
    let text = plain_text(file, listed, &path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::Tampered { url: url.clone() },
        _ => Error::Unreadable { url: url.clone(), what: "a list of packages", source: error },
    })?;
    let slim = index::strip(&text);
    write_whole(&kept, slim.as_bytes())?;
    let _ = fs::remove_file(file);
    Ok(slim)
}

fn wanted_index(source: &Source, release: &Release, directory: &str, path: &str, listed: &Listed) -> Wanted {
    let mut urls = Vec::new();
    for mirror in &source.mirrors {
        // By hash first: while the archive is being updated, the name may already be another file.
        if release.by_hash {
            urls.push(format!("{mirror}/dists/{}/{directory}/by-hash/SHA256/{}", source.suite, listed.sha256));
        }
        urls.push(format!("{mirror}/dists/{}/{path}", source.suite));
    }
    Wanted { name: format!("{} packages", source.suite), urls, size: listed.size, sha256: listed.sha256.clone() }
}

/// `InvalidInput`: it is not the listed file.
fn plain_text(file: &Path, listed: &Listed, path: &str) -> io::Result<String> {
    let mut file = fs::File::open(file)?;
    if !deb::is_whole(&mut file, listed.size, &listed.sha256)? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    io::Seek::rewind(&mut file)?;
    let file = io::BufReader::new(file);
    let mut text = String::new();
    let plain: &mut dyn Read = match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("xz") => &mut liblzma::bufread::XzDecoder::new_multi_decoder(file),
        Some("gz") => &mut flate2::bufread::MultiGzDecoder::new(file),
        _ => &mut { file },
    };
    plain.take(INDEX_LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

/// The date of the newest Release ever seen here of an archive's suite.
struct Seen {
    file: PathBuf,
}

impl Seen {
    /// Keyed by the address, not by the archive's name: a snapshot of an archive is legitimately older than the archive.
    fn of(source: &Source, cache: &Path) -> Self {
        let name = format!("{} {}", source.mirrors[0], source.suite);
        let key = deb::sha256_of(&mut name.as_bytes()).expect("a slice can be read");
        Self { file: cache.join("seen").join(key) }
    }

    fn date(&self) -> Option<SystemTime> {
        let seconds = fs::read_to_string(&self.file).ok()?.trim().parse().ok()?;
        Some(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn remember(&self, date: SystemTime) -> Result<(), Error> {
        if self.date() == Some(date) {
            return Ok(());
        }
        let seconds = date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        write_whole(&self.file, format!("{seconds}\n").as_bytes())
    }
}
