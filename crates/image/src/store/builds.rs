//! Images that were built for several architectures: a name in, its builds out.
//!
//! The name itself stands for this machine's build. Each other build has a name of its own, such as `localhost/sshfs:1 (arm64)`, which is no
//! valid reference. It is used only while the name stands for the build that it was made together with: an image that is pulled or built under
//! the name later is unrelated to it.

use shorefast_packages::{Architecture, Lock};

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::Platform;
use crate::outgoing::{About, Build};
use crate::packaged;
use crate::reference::Reference;
use crate::store::lock::Work;
use crate::store::names::Pointer;
use crate::store::{Network, Store};

impl Store {
    /// Builds the images of package locks under one name: each for another architecture, and one for this machine's.
    pub fn build(&self, locks: Vec<Lock>, name: &Reference, network: Network) -> Result<Vec<Digest>, Error> {
        let native = Architecture::native().name;
        let foreign = || packaged::PackagesError::Foreign { there: locks.iter().map(|lock| lock.architecture.clone()).collect(), native };
        let own = packaged::digest(locks.iter().find(|lock| lock.architecture == native).ok_or_else(foreign)?)?;
        let digests = locks.iter().map(packaged::digest).collect::<Result<Vec<_>, _>>()?;
        let name = name.to_string();
        let key = format!("name-{}", &Digest::of(name.as_bytes()).hex()[..32]);
        let _work = Work::wait(self.work(&key, "lock")).map_err(|error| self.error(error))?;
        // The name comes last: until then, the other builds are not used.
        let (last, others): (Vec<_>, Vec<_>) = locks.into_iter().partition(|lock| lock.architecture == native);
        for lock in others.into_iter().chain(last) {
            let made_from = lock.packages.parse()?;
            let (name, of) = if lock.architecture == native {
                (name.clone(), String::new())
            } else {
                (name_of(&name, &lock.architecture), own.to_string())
            };
            self.take(packaged::source(lock, self.means(network))?, &made_from, &key, &name, of)?;
        }
        Ok(digests)
    }

    /// All builds that `text`, a name or a digest, stands for; this machine's is the first.
    pub(crate) fn builds(&self, text: &str) -> Result<Vec<Build>, Error> {
        let digest = self.named(text)?;
        let build = |digest, platform| Build { rootfs: self.rootfs(digest), about: About { platform, ..About::client() } };
        let mut builds = vec![build(digest, Platform::here())];
        let name = text.parse::<Reference>().map(|reference| reference.to_string()).unwrap_or_default();
        let names = self.names().all().map_err(|error| self.error(error))?;
        for (pointer, architecture) in names.iter().filter_map(|pointer| Some((pointer, others(pointer, &name)?))) {
            if pointer.fingerprint == digest.to_string()
                && let Ok(Architecture { oci: (architecture, variant), .. }) = architecture.parse()
            {
                let platform =
                    Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: variant.map(str::to_owned) };
                builds.push(build(pointer.digest, platform));
            }
        }
        Ok(builds)
    }
}

/// Whether the pointer belongs to a build whose name stands for another image by now, or for none.
pub(crate) fn is_stale(pointer: &Pointer, all: &[Pointer]) -> bool {
    let is_its = |of: &str| all.iter().any(|other| other.name == of && other.digest.to_string() == pointer.fingerprint);
    split(&pointer.name).is_some_and(|(of, _)| pointer.fingerprint.starts_with("sha256:") && !is_its(of))
}

/// The architecture of a build of `name` for other machines.
pub(crate) fn others<'a>(pointer: &'a Pointer, name: &str) -> Option<&'a str> {
    split(&pointer.name).filter(|(of, _)| *of == name && pointer.fingerprint.starts_with("sha256:")).map(|(_, architecture)| architecture)
}

fn name_of(name: &str, architecture: &str) -> String {
    format!("{name} ({architecture})")
}

fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(')')?.rsplit_once(" (")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_for_others_counts_as_long_as_the_name_stands_for_the_same() {
        let pointer = |name: &str, content: &str, fingerprint: String| Pointer {
            name: name.to_owned(),
            digest: Digest::of(content.as_bytes()),
            fingerprint,
        };
        let own = pointer("a:1", "own", String::new());
        let other = pointer(&name_of("a:1", "arm64"), "other", own.digest.to_string());
        assert_eq!(others(&other, "a:1"), Some("arm64"));
        assert_eq!((others(&other, "a:2"), others(&own, "a:1")), (None, None));
        assert!(!is_stale(&other, &[own.clone(), other.clone()]) && !is_stale(&own, &[]));
        let new = Pointer { digest: Digest::of(b"new"), ..own };
        assert!(is_stale(&other, &[new, other.clone()]), "the name stands for something newer");
        assert!(is_stale(&other, std::slice::from_ref(&other)), "the name is gone");
        let file = pointer("tar:/srv/a (copy)", "file", "[1, 2][3]".to_owned());
        assert!(!is_stale(&file, &[]), "a name that only looks like it");
    }
}
