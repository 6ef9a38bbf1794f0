//! The login for a registry. Never printed.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    Password {
        user: String,
        password: String,
    },
    /// Exchanged for a token at the registry's token server.
    Identity(String),
    /// A token, used as it is.
    Token(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Password { .. } => "Password(…)",
            Self::Identity(_) => "Identity(…)",
            Self::Token(_) => "Token(…)",
        })
    }
}
