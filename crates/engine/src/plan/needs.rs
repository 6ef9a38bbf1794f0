//! In: the services of a definition and the caller's options. Out: what the broker is told of them, and which host files they need.

use std::path::PathBuf;

use shorefast_broker::policy::{ServiceUse, Start};

use crate::definition::Services;
use crate::options::Item;

/// A file of the host without which a service does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub service: String,
    pub path: PathBuf,
    /// What the caller can do if the file is missing.
    pub otherwise: Option<String>,
}

pub(super) fn service_use(services: &Services) -> ServiceUse {
    ServiceUse {
        names: services.run.iter().map(|service| service.name.clone()).collect(),
        start: if services.asked_by.is_some() { Start::WhenAsked } else { Start::BeforeTheMount },
        with: services.used_with.clone(),
        unless: services.unless.clone(),
    }
}

/// Judged by the caller's options; the broker judges by the options that the client passes on.
pub(super) fn needs(services: &[Services], items: &[Item]) -> Vec<Need> {
    let options: Vec<_> = items.iter().map(ToString::to_string).collect();
    let used = services.iter().filter(|services| service_use(services).is_used_by(options.iter().map(String::as_str)));
    let all =
        used.flat_map(|services| services.run.iter().flat_map(move |service| service.files().map(move |path| (services, service, path))));
    all.map(|(services, service, path)| Need { service: service.name.clone(), path: path.clone(), otherwise: services.otherwise.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    #[test]
    fn a_kerberos_mount_needs_the_hosts_key() {
        let nfs = crate::catalogue::named("nfs").unwrap().complete().unwrap();
        let needed = |text: &str| {
            let needs = needs(&nfs.services, &options::parse(text).unwrap().items);
            needs.into_iter().map(|need| (need.service, need.path.to_str().unwrap().to_owned())).collect::<Vec<_>>()
        };
        let both = ["/etc/krb5.keytab", "/etc/krb5.conf"].map(|path| ("rpc.gssd".to_owned(), path.to_owned()));
        assert_eq!(needed("vers=4.2,sec=krb5p"), both);
        assert_eq!(needed("vers=3,sec=sys"), []);
    }
}
