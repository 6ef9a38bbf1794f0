//! Architectures that images are made for, with their names in Debian, the OCI and so on. No program of an image is run while it is made, so
//! any machine can make it.

/// One architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Debian's name.
    pub name: &'static str,
    /// The name in directories of libraries.
    pub triplet: &'static str,
    /// The OCI's name, which is Go's, with the variant, if it has one.
    pub oci: (&'static str, Option<&'static str>),
    rust: &'static str,
    /// The list of libraries is written in this byte order.
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

const fn little(name: &'static str, rust: &'static str, triplet: &'static str, oci: (&'static str, Option<&'static str>)) -> Architecture {
    Architecture { name, triplet, oci, rust, order: Order::Little }
}

const ALL: [Architecture; 8] = [
    little("amd64", "x86_64", "x86_64-linux-gnu", ("amd64", None)),
    little("arm64", "aarch64", "aarch64-linux-gnu", ("arm64", None)),
    little("armhf", "arm", "arm-linux-gnueabihf", ("arm", Some("v7"))),
    little("i386", "x86", "i386-linux-gnu", ("386", None)),
    little("loong64", "loongarch64", "loongarch64-linux-gnu", ("loong64", None)),
    little("ppc64el", "powerpc64", "powerpc64le-linux-gnu", ("ppc64le", None)),
    little("riscv64", "riscv64", "riscv64-linux-gnu", ("riscv64", None)),
    Architecture { order: Order::Big, ..little("s390x", "s390x", "s390x-linux-gnu", ("s390x", None)) },
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an architecture that images can be built for here; supported are {known}", known = names().join(", "))]
pub struct Unknown(pub String);

impl Architecture {
    /// This machine's.
    pub fn native() -> Self {
        let unknown = little(std::env::consts::ARCH, std::env::consts::ARCH, "", (std::env::consts::ARCH, None));
        ALL.into_iter().find(|one| one.rust == std::env::consts::ARCH).unwrap_or(unknown)
    }

    fn can_be_made_here(&self) -> bool {
        let here = if cfg!(target_endian = "little") { Order::Little } else { Order::Big };
        self.order == here
    }
}

/// By Debian's name or the OCI's.
impl std::str::FromStr for Architecture {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let found = ALL.into_iter().find(|one| one.name == text || one.oci.0 == text);
        found.filter(Self::can_be_made_here).ok_or_else(|| Unknown(text.to_owned()))
    }
}

fn names() -> Vec<&'static str> {
    ALL.iter().filter(|one| one.can_be_made_here()).map(|one| one.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_known_by_either_name() {
        let rows = [("amd64", "amd64"), ("arm64", "arm64"), ("386", "i386"), ("ppc64le", "ppc64el"), ("ppc64el", "ppc64el")];
        for (text, expected) in rows {
            assert_eq!(text.parse::<Architecture>().map(|found| found.name), Ok(expected), "{text}");
        }
        let native = Architecture::native();
        assert_eq!(native.name.parse(), Ok(native), "what is made here can be made here");
        for text in ["", "x86_64", "all", "AMD64"] {
            assert!(text.parse::<Architecture>().is_err(), "{text:?}");
        }
    }
}
