//! In: a registry's `WWW-Authenticate: Bearer realm="…",service="…",scope="…"` or `Basic`. Out: how to authenticate.

use shorefast_net::Url;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer { realm: Url, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    /// The best scheme that the server offers: a token lives for minutes, a password for years.
    pub(crate) fn among<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut offered: Vec<_> = headers.filter_map(Self::read).collect();
        let best = offered.iter().position(|challenge| *challenge != Self::Basic).unwrap_or(0);
        (!offered.is_empty()).then(|| offered.swap_remove(best))
    }

    fn read(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        let value = |name: &str| parameters_of(parameters).into_iter().find(|(key, _)| key == name).map(|(_, value)| value);
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => Some(Self::Basic),
            "bearer" => Some(Self::Bearer { realm: value("realm")?.parse().ok()?, service: value("service"), scope: value("scope") }),
            _ => None,
        }
    }

    /// The address of a token for reading `repository`.
    pub(crate) fn token_address(realm: &Url, service: Option<&str>, scope: &str) -> Url {
        let mut address = realm.clone();
        {
            let mut query = address.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", service);
            }
            query.append_pair("scope", scope);
        }
        address
    }
}

/// `key="value", key=value`; a comma within quotes belongs to the value, as in scopes.
fn parameters_of(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((key, value.trim().to_owned()));
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_registries_demand() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm, service, scope }) = Challenge::among([r#"Basic realm="x""#, hub].into_iter()) else {
            panic!("a token is better than a password");
        };
        assert_eq!((service.as_deref(), scope.as_deref()), (Some("registry.docker.io"), Some("repository:a/b:pull,push")));
        let address = Challenge::token_address(&realm, service.as_deref(), "repository:a/b:pull");
        assert_eq!(address.as_str(), "https://auth.docker.io/token?service=registry.docker.io&scope=repository%3Aa%2Fb%3Apull");
        assert_eq!(Challenge::among([r#"basic realm="Registry Realm""#].into_iter()), Some(Challenge::Basic));
        assert_eq!(Challenge::among(["Basic"].into_iter()), Some(Challenge::Basic));
    }

    #[test]
    fn nonsense_demands_nothing() {
        for text in ["", "Bearer", "Bearer realm=", r#"Bearer service="x""#, "Bearer realm=not-an-address", "Negotiate abc", "=\"=\"="] {
            assert_eq!(Challenge::among([text].into_iter()), None, "{text}");
        }
    }
}
