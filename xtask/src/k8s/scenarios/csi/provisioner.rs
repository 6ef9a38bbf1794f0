//! What Kubernetes' external provisioner does, in small: claims in, calls of the Controller, PersistentVolumes out; and away again.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use shorefast_csi::messages::{
    AccessMode, AccessType, CapacityRange, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, Empty, Mode, MountVolume,
    VolumeCapability,
};
use shorefast_tests::channel::{Answer, Channel};

use super::{DRIVER, SOCKET, apply};
use crate::k8s::node::Node;

type Map = HashMap<String, String>;

/// Looks once at all claims and volumes, and does what is to be done for them.
pub(super) fn look_once(node: &Node) -> Result<()> {
    let list = |kind: &str| -> Result<Vec<Value>> {
        let all = node.cluster.kubectl.get(&[kind, "--all-namespaces"]).with_context(|| format!("no list of {kind}"))?;
        Ok(all["items"].as_array().cloned().unwrap_or_default())
    };
    let (classes, volumes) = (list("storageclasses")?, list("persistentvolumes")?);
    for claim in list("persistentvolumeclaims")? {
        let class = classes.iter().find(|class| class["metadata"]["name"] == claim["spec"]["storageClassName"]);
        let name = format!("pvc-{}", text(&claim["metadata"]["uid"]));
        let is_there = volumes.iter().any(|volume| volume["metadata"]["name"] == *name);
        if let Some(class) = class.filter(|class| class["provisioner"] == DRIVER && !is_there) {
            provision(node, &claim, class, &name)?;
        }
    }
    for volume in volumes.iter().filter(|volume| volume["spec"]["csi"]["driver"] == DRIVER) {
        let is_released = volume["status"]["phase"] == "Released" && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
        if is_released {
            remove(node, volume, &classes)?;
        }
    }
    Ok(())
}

fn provision(node: &Node, claim: &Value, class: &Value, name: &str) -> Result<()> {
    let parameters: Map = serde_json::from_value(class["parameters"].clone())?;
    let mut passed: Map =
        parameters.iter().filter(|(key, _)| !key.contains("-secret-")).map(|(key, value)| (key.clone(), value.clone())).collect();
    let (namespace, of) = (text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
    for (key, value) in [("pvc/name", of.as_str()), ("pvc/namespace", &namespace), ("pv/name", name)] {
        passed.insert(format!("csi.storage.k8s.io/{key}"), value.to_owned());
    }
    let options: Vec<String> = serde_json::from_value(class["mountOptions"].clone()).unwrap_or_default();
    let mount = MountVolume { mount_flags: options.clone(), ..Default::default() };
    let message = CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 1 << 30, limit_bytes: 0 }),
        volume_capabilities: vec![VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
        }],
        parameters: passed,
        secrets: secrets(node, &parameters)?,
        ..Default::default()
    };
    let created: CreateVolumeResponse = call("CreateVolume", &message)?;
    let made = created.volume.context("no volume was made")?;
    let mut csi = json!({"driver": DRIVER, "volumeHandle": made.volume_id, "volumeAttributes": made.volume_context});
    if let Some((secret, of)) = named(&parameters, "node-stage") {
        csi["nodeStageSecretRef"] = json!({"name": secret, "namespace": of});
    }
    apply(
        node,
        &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {
            // Otherwise Kubernetes takes the volume for its own, and says that it cannot delete it.
            "name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
        }, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": claim["spec"]["accessModes"], "mountOptions": options,
            "storageClassName": class["metadata"]["name"], "persistentVolumeReclaimPolicy": class["reclaimPolicy"], "csi": csi,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": of, "namespace": namespace, "uid": claim["metadata"]["uid"]},
        }}),
    )
}

fn remove(node: &Node, volume: &Value, classes: &[Value]) -> Result<()> {
    let class =
        classes.iter().find(|class| class["metadata"]["name"] == volume["spec"]["storageClassName"]).context("its class is gone")?;
    let parameters: Map = serde_json::from_value(class["parameters"].clone())?;
    let message = DeleteVolumeRequest { volume_id: text(&volume["spec"]["csi"]["volumeHandle"]), secrets: secrets(node, &parameters)? };
    call::<Empty>("DeleteVolume", &message)?;
    node.cluster.kubectl.run(&["delete", "persistentvolume", &text(&volume["metadata"]["name"]), "--timeout=60s"]).map(drop)
}

fn call<Out: prost::Message + Default + 'static>(method: &str, message: &impl prost::Message) -> Result<Out> {
    let answer: Answer<Out> = Channel::open(Path::new(SOCKET)).call(&format!("/csi.v1.Controller/{method}"), message);
    match answer {
        Ok(answer) => Ok(answer),
        Err(refused) => bail!("{method}: {refused:?}"),
    }
}

/// Name and namespace of a Secret that the class names.
fn named(parameters: &Map, whose: &str) -> Option<(String, String)> {
    let of = |what: &str| parameters.get(&format!("csi.storage.k8s.io/{whose}-secret-{what}")).cloned();
    of("name").zip(of("namespace"))
}

fn secrets(node: &Node, parameters: &Map) -> Result<Map> {
    let Some((name, namespace)) = named(parameters, "provisioner") else { return Ok(Map::new()) };
    let secret = node.cluster.kubectl.get(&["secret", &name, "--namespace", &namespace]).context("the class's Secret is not there")?;
    let data: Map = serde_json::from_value(secret["data"].clone())?;
    let decode = |(key, value): (String, String)| Ok((key, String::from_utf8(BASE64_STANDARD.decode(value)?)?));
    data.into_iter().map(decode).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
