//! What a pod's events say when a volume cannot be.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{KEY, SSH_OPTIONS, claimed, glusterfs, secret, ssh_key, sshfs, static_volume};
use crate::k8s::node::Node;

/// What is in it, and words that the event must have.
type Mistake = (&'static str, Value, Option<&'static str>, &'static [&'static str]);

pub(in crate::k8s::scenarios) fn explained(node: &mut Node) -> Result<String> {
    let mut wrong_key = ssh_key(node)?;
    wrong_key["IdentityFile"] = "no key at all\n".into();
    secret(node, "wrong-key", &wrong_key)?;
    secret(node, "wrong-name", &json!({"Identityfile": "x"}))?;
    let at = |source: String| json!({"type": "sshfs", "source": source, "mountOptions": SSH_OPTIONS});
    let mut no_volume = glusterfs(node);
    no_volume["source"] = "10.99.0.1:/nosuchvolume".into();
    let mut no_image = sshfs(node);
    no_image["image"] = "registry.invalid/sshfs:1".into();
    let mut no_port = sshfs(node);
    no_port["mountOptions"] = "port=2".into();
    let mistakes: [Mistake; 8] = [
        ("wrong-directory", at("root@127.0.0.1:/nosuchdirectory".to_owned()), Some(KEY), &["nosuchdirectory"]),
        ("wrong-port", no_port, Some(KEY), &["Connection refused"]),
        ("wrong-volume", no_volume, None, &["nosuchvolume", "hint"]),
        ("wrong-key", sshfs(node), Some("wrong-key"), &["Unauthenticated", "hint"]),
        ("wrong-name", sshfs(node), Some("wrong-name"), &["knows no secret", "IdentityFile"]),
        ("wrong-image", no_image, Some(KEY), &["registry.invalid"]),
        ("wrong-type", json!({"type": "sshfz", "source": "x"}), None, &["sshfz", "hint"]),
        ("wrong-attribute", json!({"type": "sshfs", "sauce": "x"}), None, &["sauce", "source"]),
    ];
    for (name, attributes, secret, _) in &mistakes {
        static_volume(node, name, attributes, *secret)?;
        node.start_pod(name, &claimed(name), "true")?;
    }
    let mut short = Vec::new();
    for (name, _, _, words) in &mistakes {
        let complaint = node.complaint_about(name)?;
        let missing: Vec<_> = words.iter().filter(|word| !complaint.contains(**word)).collect();
        ensure!(missing.is_empty(), "{name}: {missing:?} is not in the event: {complaint}");
        let said = complaint.split_once("desc = ").map_or(complaint.as_str(), |(_, said)| said);
        eprintln!("          {name}: {}", said.replace('\n', " / "));
        short.push(*name);
    }
    node.delete_pods(&short)?;
    Ok(format!("{} mistakes", short.len()))
}
