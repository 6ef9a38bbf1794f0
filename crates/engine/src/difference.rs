//! What two mounts can differ in.

/// In what an existing mount differs from what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    Type,
    Source,
    Options,
    Client,
    Image,
    Mode,
    /// Which group its files belong to.
    Group,
    /// What its caller calls it.
    Label,
    /// It was made by a build that did not write down what it was made of.
    Unknown,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Type => "type",
            Self::Source => "source",
            Self::Options => "options",
            Self::Client => "client definition",
            Self::Image => "image",
            Self::Mode => "mode",
            Self::Group => "the group of its files",
            Self::Label => "label",
            Self::Unknown => "something",
        })
    }
}
