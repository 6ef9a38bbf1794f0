//! All checks, in the order in which a mount would depend on them.

use crate::finding::Finding;
use crate::subject::Subject;
use crate::{cgroups, client, clock, crowd, fuse, kernel, kubelet, names, places, propagation, records};

pub fn examine(subject: &Subject) -> Vec<Finding> {
    let mut findings = vec![kernel::check(), fuse::check(), cgroups::check()];
    findings.extend(propagation::check());
    findings.extend(clock::check());
    findings.extend([places::check("records", &subject.run_dir), places::check("images", &subject.root)]);
    findings.extend(records::check(&subject.run_dir));
    findings.extend(crowd::check(&subject.root));
    findings.push(names::check());
    findings.extend(kubelet::check());
    findings.extend(match &subject.fstype {
        Some(fstype) => client::check(fstype, subject),
        None => client::check_all(subject),
    });
    findings
}
