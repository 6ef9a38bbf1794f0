//! deploy/: what a cluster is given. Read by kubectl and helm themselves, and compared with what the driver takes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use shorefast_csi::volume_id::Provisioned;
use shorefast_csi::{provisioned, volume};
use shorefast_engine::request::Author;
use shorefast_tests::client;
use shorefast_worker::task::key;

type Objects = BTreeMap<(String, String), Value>;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// What a program of the tests' cache says, which `cargo xtask setup` fills.
fn output(program: &str, arguments: &[&str]) -> String {
    let program = client::cache().join(program);
    let done = Command::new(&program).args(arguments).output().unwrap_or_else(|error| {
        panic!("{}: {error} (hint: cargo xtask setup)", program.display());
    });
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("manifests are text")
}

fn kustomize(directory: &str) -> Objects {
    objects(&output("kubectl/usr/bin/kubectl", &["kustomize", deploy(directory).to_str().expect("a plain path")]))
}

fn helm(values: &[&str]) -> Objects {
    let chart = deploy("helm/shorefast-csi");
    let chart = chart.to_str().expect("a plain path");
    output("helm/bin/helm", &["lint", "--strict", chart]);
    let mut arguments = vec!["template", "shorefast", chart, "--namespace", "kube-system"];
    values.iter().for_each(|value| arguments.extend(["--set", value]));
    objects(&output("helm/bin/helm", &arguments))
}

/// YAML, by kind and name.
fn objects(text: &str) -> Objects {
    const SCRIPT: &str = "import json, sys, yaml; print(json.dumps([o for o in yaml.safe_load_all(sys.argv[1]) if o]))";
    // The tests' S3 server brings a parser along.
    let done =
        Command::new("python3").args(["-c", SCRIPT, text]).env("PYTHONPATH", client::cache().join("moto")).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let all: Vec<Value> = serde_json::from_slice(&done.stdout).expect("a list");
    let name = |object: &Value| (text_of(&object["kind"]), text_of(&object["metadata"]["name"]));
    all.into_iter().map(|object| (name(&object), object)).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn driver(objects: &Objects) -> &Value {
    &objects[&("DaemonSet".to_owned(), "shorefast-csi".to_owned())]["spec"]["template"]["spec"]
}

/// In which order is up to the program.
fn by_name(list: &Value) -> BTreeMap<String, Value> {
    list.as_array().expect("a list").iter().map(|one| (text_of(&one["name"]), one.clone())).collect()
}

#[test]
fn the_chart_and_the_manifests_are_the_same() {
    let base = kustomize("kubernetes/csi/base");
    assert_eq!(base.len(), 9, "{:?}", base.keys());
    assert_eq!(helm(&[]), base);
    let root = ["kubeletRoot=/var/lib/k0s/kubelet"];
    assert_eq!(helm(&root), kustomize("kubernetes/csi/overlays/kubelet-root"));
    assert_eq!(helm(&["metricsAddress=127.0.0.1:9810"]), kustomize("kubernetes/csi/overlays/metrics"));
    assert_eq!(helm(&["republish=true"]), kustomize("kubernetes/csi/overlays/republish"));
    let clients = r#"clients.glusterfs\.toml=limits = { memory = "1G" }"#.replace('{', "\\{").replace('}', "\\}");
    let (with_helm, with_kustomize) = (helm(&[&clients]), kustomize("kubernetes/csi/overlays/definitions"));
    for list in ["containers", "volumes"] {
        assert_eq!(by_name(&driver(&with_helm)[list]), by_name(&driver(&with_kustomize)[list]));
    }
    assert_eq!(with_helm.keys().collect::<Vec<_>>(), with_kustomize.keys().collect::<Vec<_>>());
    // One container with rights, none beside it, and no path of the host.
    assert_eq!(driver(&base)["containers"].as_array().map(Vec::len), Some(1));
    assert!(driver(&base)["volumes"].is_null());
    assert_eq!(kustomize("kubernetes/csi/driver").len(), 1);
}

#[test]
fn the_examples_are_what_the_driver_takes() {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(deploy("kubernetes/csi/examples")).expect("there are examples") {
        let path = entry.expect("an example").path();
        let all = objects(&std::fs::read_to_string(&path).expect("text"));
        for ((kind, name), object) in &all {
            seen.push(kind.clone());
            let map = |value: &Value| -> HashMap<String, String> { serde_json::from_value(value.clone()).expect("text by text") };
            let flags: Vec<String> = serde_json::from_value(object["mountOptions"].clone()).unwrap_or_default();
            let attributes = match kind.as_str() {
                "StorageClass" => {
                    let mut parameters = map(&object["parameters"]);
                    for (key, value) in [("pvc/name", "data"), ("pvc/namespace", "default"), ("pv/name", "pvc-1")] {
                        parameters.insert(format!("csi.storage.k8s.io/{key}"), value.to_owned());
                    }
                    let parsed = provisioned::parse("pvc-0b5f0a3e-0000-4000-8000-000000000000", &parameters);
                    let parsed = parsed.unwrap_or_else(|status| panic!("{name}: {status}"));
                    let mut with_options = parsed.base.clone();
                    with_options.insert("mountOptions".to_owned(), flags.join(","));
                    Provisioned::of(key(&parsed.directory), &with_options).id().unwrap_or_else(|status| panic!("{name}: {status}"));
                    parsed.base
                }
                "PersistentVolume" => map(&object["spec"]["csi"]["volumeAttributes"]),
                "Pod" => map(&object["spec"]["volumes"][0]["csi"]["volumeAttributes"]),
                _ => continue,
            };
            let author = if kind == "Pod" { Author::Guest } else { Author::Administrator };
            volume::request(name, &attributes, &flags, author).unwrap_or_else(|status| panic!("{name}: {status}"));
        }
    }
    for kind in ["StorageClass", "PersistentVolume", "PersistentVolumeClaim", "Secret", "Pod"] {
        assert!(seen.iter().any(|seen| seen == kind), "no example has a {kind}");
    }
}
