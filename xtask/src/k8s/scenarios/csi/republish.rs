//! What kubelet brings to a volume that is mounted: changed Secrets, and the tokens of pods' service accounts.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use shorefast_tests::{client, command};

use super::{DRIVER, SSH_OPTIONS, apply, claim, claimed, inline, secret};
use crate::k8s::node::Node;

const AUDIENCE: &str = "storage.example.com";

/// Says every second whether it can read what the server has.
const READ: &str = "trap 'exit 0' TERM; while :; do if cat /data/marker > /tmp/seen 2> /dev/null; then can=reads; else can=cannot; fi
echo $can > /report/@NAME@.new && mv /report/@NAME@.new /report/@NAME@; sleep 1; done";

/// As `overlays/republish` has it, of which kubectl would make the whole driver anew.
fn ask_for(node: &Node, what: &serde_json::Value) -> Result<()> {
    let patch = json!({"spec": what}).to_string();
    node.cluster.kubectl.run(&["patch", "csidriver", DRIVER, "--type=merge", "--patch", &patch])?;
    let driver = node.cluster.kubectl.get(&["csidriver", DRIVER]).context("no CSIDriver")?;
    for (key, value) in what.as_object().context("an object")? {
        let is_kept = driver["spec"][key] == *value;
        ensure!(is_kept, "the API server does not keep {key}: {}", driver["spec"]);
    }
    Ok(())
}

/// The server takes another key, and the Secret gets that one: the pod goes on with the client that it had.
pub(in crate::k8s::scenarios) fn changed_secret(node: &mut Node) -> Result<String> {
    ask_for(node, &json!({"requiresRepublish": true}))?;
    fs::write(node.sshd.share.join("marker"), "from-the-server")?;
    let content = |key: &std::path::Path| -> Result<serde_json::Value> {
        Ok(json!({"IdentityFile": fs::read_to_string(key)?, "UserKnownHostsFile": node.sshd.known_host()}))
    };
    secret(node, "changing-key", &content(&node.sshd.key)?)?;
    let attributes = json!({"type": "sshfs", "source": node.sshd.source(), "mountOptions": format!("{SSH_OPTIONS},reconnect")});
    let named = json!({"name": "changing-key", "namespace": "default"});
    apply(
        node,
        &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "changing"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "manual",
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"name": "changing", "namespace": "default"},
            "csi": {"driver": DRIVER, "volumeHandle": "changing", "volumeAttributes": attributes,
                "nodeStageSecretRef": named, "nodePublishSecretRef": named},
        }}),
    )?;
    claim(node, "changing", "manual", Some("changing"))?;
    let pods = [("changing-pv", claimed("changing")), ("changing-inline", inline(&attributes, Some("changing-key")))];
    for (name, volume) in &pods {
        node.start_pod(name, volume, &READ.replace("@NAME@", name))?;
    }
    let wait_for = |node: &Node, word: &str| {
        for (name, _) in &pods {
            node.cluster.wait_until(&format!("{name} to say that it {word}"), |_| node.report(name).filter(|said| said == word))?;
        }
        anyhow::Ok(())
    };
    wait_for(node, "reads")?;
    let clients = || node.sandboxed().into_iter().filter(|process| process.status("Name").as_deref() == Some("sshfs")).collect::<Vec<_>>();
    let before = clients();
    let newer = node.host.path("newer-key");
    command::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", newer.to_str().context("our own path")?]);
    node.sshd.let_in(&newer.with_extension("pub"));
    node.sshd.disconnect_all();
    wait_for(node, "cannot")?;
    secret(node, "changing-key", &content(&newer)?)?;
    wait_for(node, "reads")?;
    ensure!(clients() == before, "other clients: {before:?} before, {:?} after", clients());
    node.delete_pods(&["changing-pv", "changing-inline"])?;
    ask_for(node, &json!({"requiresRepublish": false}))?;
    Ok(String::new())
}

/// For this audience, and of this pod: the client looks into it, and refuses to mount otherwise.
pub(in crate::k8s::scenarios) fn token(node: &mut Node) -> Result<String> {
    ask_for(node, &json!({"tokenRequests": [{"audience": AUDIENCE, "expirationSeconds": 3600}]}))?;
    let script = format!(
        "f=${{2#*token_file=}}; f=${{f%%,*}}; IFS=. read -r head body sign < $f; said=$(printf %s= \"$body\" | tr _- /+ | base64 -di 2> /dev/null); \
         case $said in *{AUDIENCE}*\"default:default\"*) exec mount -t tmpfs -o mode=777 none $1;; esac; echo no token: $f >&2; exit 9"
    );
    client::define_script(&node.host, &script, &format!("tokens = {{ token_file = \"{AUDIENCE}\" }}"));
    let volume = inline(&json!({"type": "script", "source": "server:/x"}), None);
    node.start_pod("with-token", &volume, "echo mine > /data/x && cat /data/x > /report/with-token; sleep 600")?;
    let report = node.wait_for_report("with-token")?;
    ensure!(report == "mine", "the pod reports {report:?}");
    // No token is requested any more: the client says so, without a token.
    ask_for(node, &json!({"tokenRequests": []})).or_else(|_| ask_for(node, &json!({"tokenRequests": null})))?;
    node.start_pod("without-token", &volume, "true")?;
    let complaint = node.complaint_about("without-token")?;
    ensure!(complaint.contains("no token"), "the event says something else: {complaint}");
    node.delete_pods(&["with-token", "without-token"])?;
    Ok(String::new())
}
