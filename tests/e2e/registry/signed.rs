//! Images that must be signed: signatures as cosign lays them beside images, made with openssl, in a real registry.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use shorefast_image::Digest;
use shorefast_net::{Client, Method, Payload, PlainHttp, Request, Settings, Silent, Url};
use shorefast_tests::path::text;
use shorefast_tests::servers::Registry;
use shorefast_tests::servers::registry::{Access, Transport};
use shorefast_tests::{Host, Layout, command};

use super::{PORT, configure, digest_of, foreign, here, make_index, plain, store, tools};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A pair of keys, as `cosign generate-key-pair` has them; the public half is where an administrator puts it.
struct Signer {
    private: PathBuf,
    public: PathBuf,
}

impl Signer {
    fn new(host: &Host, name: &str) -> Self {
        let (private, public) = (host.path(format!("{name}.key")), Path::new("/etc/shorefast/keys").join(name).with_extension("pub"));
        fs::create_dir_all("/etc/shorefast/keys").expect("/etc is the test's own");
        command::run(&["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", text(&private)]);
        command::run(&["openssl", "ec", "-in", text(&private), "-pubout", "-out", text(&public)]);
        Self { private, public }
    }

    fn sign(&self, host: &Host, payload: &str) -> Signature {
        let (file, signature) = (host.file("payload", payload), host.path("signature"));
        command::run(&["openssl", "dgst", "-sha256", "-sign", text(&self.private), "-out", text(&signature), text(&file)]);
        Signature { payload: payload.to_owned(), base64: BASE64.encode(fs::read(signature).expect("openssl wrote it")) }
    }
}

struct Signature {
    payload: String,
    base64: String,
}

/// What cosign signs.
fn payload(name: &str, digest: Digest) -> String {
    let critical = json!({
        "identity": { "docker-reference": name },
        "image": { "docker-manifest-digest": digest },
        "type": "cosign container image signature",
    });
    json!({ "critical": critical, "optional": null }).to_string()
}

struct Repository {
    address: SocketAddr,
    name: String,
    client: Client,
}

impl Repository {
    fn at(registry: &Registry, name: &str) -> Self {
        let plain_http = PlainHttp::OnlyFrom([registry.address.to_string()].into());
        Self { address: registry.address, name: name.to_owned(), client: Client::new(&Settings { plain_http, ..Settings::default() }) }
    }

    /// `HOST:PORT/NAME`
    fn full_name(&self) -> String {
        format!("{}/{}", self.address, self.name)
    }

    fn url(&self, path: &str) -> Url {
        format!("http://{}/v2/{}/{path}", self.address, self.name).parse().expect("an address")
    }

    fn send(&self, url: Url, method: Method, payload: Payload<'_>) -> shorefast_net::Answer {
        let answer = self.client.send(&Request::to(url).expect("an address"), method, payload, &Silent).expect("the registry answers");
        assert!(answer.is_success(), "{answer:?}");
        answer
    }

    fn blob(&self, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        let mut place = self.send(self.url("blobs/uploads/"), Method::Post, Payload::Nothing).location().expect("it says where");
        place.query_pairs_mut().append_pair("digest", &digest.to_string());
        self.send(place, Method::Put, Payload::Bytes { media_type: "application/octet-stream", bytes });
        json!({ "digest": digest, "size": bytes.len() })
    }

    /// As `cosign sign` does: all signatures of one image in one manifest, which takes the place of what was there.
    fn attach(&self, to: Digest, signatures: &[Signature]) {
        let mut config = self.blob(b"{}");
        config["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
        let layer = |signature: &Signature| {
            let mut layer = self.blob(signature.payload.as_bytes());
            layer["mediaType"] = json!("application/vnd.dev.cosign.simplesigning.v1+json");
            layer["annotations"] = json!({ "dev.cosignproject.cosign/signature": signature.base64 });
            layer
        };
        let layers: Vec<_> = signatures.iter().map(layer).collect();
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers }).to_string();
        let tag = format!("manifests/sha256-{}.sig", to.hex());
        self.send(self.url(&tag), Method::Put, Payload::Bytes { media_type: MANIFEST, bytes: manifest.as_bytes() });
    }
}

#[test]
fn an_image_that_must_be_signed_is_taken_only_with_a_signature_for_it() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    configure(&plain(&registry));
    registry.push(&tools(&host).path, "tools", "team/tools:1");
    let (digest, repository) = (digest_of(&registry, "team/tools:1"), Repository::at(&registry, "team/tools"));
    let (ours, other) = (Signer::new(&host, "ours"), Signer::new(&host, "other"));
    let name = repository.full_name();
    let good = payload(&name, digest);
    let tagged = |tag: &str| ours.sign(&host, &payload(&format!("{name}:{tag}"), digest));
    let moved = |signature: Signature, payload: &str| Signature { payload: payload.to_owned(), ..signature };
    let elsewhere = name.replace("team/", "other/");
    let pull = |image: &str| host.shorefast(&["image", "pull", "--signed-by", text(&ours.public), image]);
    let by_tag = format!("{name}:1");
    pull(&by_tag).exits(32).says("it has no signature").says("hint: ");
    let before = store();
    assert_eq!(before, Vec::<String>::new());
    let refused = [
        ("another key", vec![other.sign(&host, &good)], "by no key of \"/etc/shorefast/keys/ours.pub\""),
        ("another image", vec![ours.sign(&host, &payload(&name, Digest::of(b"old")))], "is for another image, sha256:"),
        ("another name", vec![ours.sign(&host, &payload(&elsewhere, digest))], "which is another name"),
        ("another tag", vec![tagged("2")], "which is another name"),
        ("something that is no image", vec![ours.sign(&host, &good.replace("container image", "blob"))], "something that is not an image"),
        ("no JSON", vec![ours.sign(&host, "yes")], "something that is not an image"),
        ("another text", vec![moved(ours.sign(&host, &payload(&elsewhere, digest)), &good)], "by no key of"),
        ("no base64", vec![Signature { payload: good.clone(), base64: "?".to_owned() }], "by no key of"),
        ("no signature at all", vec![Signature { payload: good.clone(), base64: String::new() }], "by no key of"),
        ("two that are wrong", vec![other.sign(&host, &good), ours.sign(&host, &payload(&elsewhere, digest))], "which is another name"),
    ];
    for (what, signatures, said) in refused {
        repository.attach(digest, &signatures);
        let ran = pull(&by_tag);
        assert!(ran.code == Some(32) && ran.stderr.contains(said) && ran.stderr.contains("hint: "), "{what}: {}", ran.stderr);
        assert_eq!(store(), before, "{what}: the store is as it was");
    }
    let by_digest = format!("{name}@{digest}");
    let taken = [
        ("ours", vec![ours.sign(&host, &good)], &by_tag),
        ("ours after another's", vec![other.sign(&host, &good), ours.sign(&host, &good)], &by_tag),
        ("ours for this tag", vec![tagged("1")], &by_tag),
        ("ours for a tag, by digest", vec![tagged("2")], &by_digest),
    ];
    for (what, signatures, image) in taken {
        repository.attach(digest, &signatures);
        let ran = pull(image);
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), digest.to_string().as_str()), "{what}: {}", ran.stderr);
        host.shorefast(&["image", "remove", image]).succeeds();
    }
}

#[test]
fn a_registry_can_be_required_to_have_signed_images_only() {
    let Some(host) = Host::new() else { return };
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    let layout = Layout::new(&host);
    layout.image("own", &here(), &[("/own", super::block("own"))]);
    layout.image("other", foreign(), &[("/other", super::block("other"))]);
    registry.push(&layout.path, "other", "multi:other");
    registry.push(&layout.path, "own", "multi:own");
    make_index(&host, &registry, "multi:both", &["multi:other", "multi:own"]);
    let ours = Signer::new(&host, "ours");
    configure(&format!("{}signed_by = {:?}\n", plain(&registry), ours.public));
    let (repository, name) = (Repository::at(&registry, "multi"), registry.name("multi:both"));
    let raw = command::run(&["skopeo", "inspect", "--tls-verify=false", "--raw", &format!("docker://{name}")]).stdout;
    let index = Digest::of(raw.as_bytes());
    host.shorefast(&["image", "pull", &name]).exits(32).says("it has no signature");
    // What is signed is the index, and with it each build that it lists.
    repository.attach(index, &[ours.sign(&host, &payload(&repository.full_name(), index))]);
    let pulled = host.shorefast(&["image", "pull", &name]).succeeds();
    let own = digest_of(&registry, "multi:own");
    assert_eq!(pulled.stdout.trim(), own.to_string());
    // The build alone is not signed.
    host.shorefast(&["image", "pull", &registry.name("multi:own")]).exits(32).says("it has no signature");
    let inspected = host.shorefast(&["image", "inspect", "--json", &name]).succeeds().json();
    assert_eq!(inspected["signatures"][0]["identity"], repository.full_name(), "{inspected}");
    // Who could change the keys could sign.
    command::run(&["chmod", "o+w", text(&ours.public)]);
    host.shorefast(&["image", "pull", &name]).exits(32).says("can be written to by everybody").says("hint: ");
    fs::write(&ours.public, "no key").expect("/etc is the test's own");
    command::run(&["chmod", "644", text(&ours.public)]);
    host.shorefast(&["image", "pull", &name]).exits(32).says("it holds no public key").says("hint: ");
}

#[test]
fn a_client_whose_image_must_be_signed_runs_no_other() {
    let Some(host) = Host::new() else { return };
    host.offer_packages();
    let registry = Registry::start(&host, PORT, Transport::Plain, Access::Anybody);
    configure(&plain(&registry));
    let (ours, other) = (Signer::new(&host, "ours"), Signer::new(&host, "other"));
    let (repository, image) = (Repository::at(&registry, "clients/bindfs"), registry.name("clients/bindfs:1"));
    host.shorefast(&["image", "build", "--packages", "bindfs", "localhost/bindfs:1"]).succeeds();
    let digest: Digest =
        host.shorefast(&["image", "push", "localhost/bindfs:1", &image]).succeeds().stdout.trim().parse().expect("a digest");
    // It is here before anybody asks for signatures.
    host.shorefast(&["image", "pull", &image]).succeeds();
    let demand = |signer: &Signer| host.define("bindfs", &format!("image = {image:?}\nsigned_by = {:?}\n", signer.public));
    demand(&ours);
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("/srv is the test's own");
    host.settle();
    let mount = |more: &[&str]| host.shorefast(&[&["mount", "-t", "bindfs"], more, &[text(&source), text(&target)]].concat());
    let before = store();
    mount(&[]).exits(32).says("it has no signature").says("hint: ");
    host.shorefast(&["image", "pull", &image]).exits(32).says("it has no signature");
    host.shorefast(&["image", "pull", "--all"]).exits(32).says("it has no signature");
    mount(&["--image", "localhost/bindfs:1"]).exits(32).says("cannot reach");
    mount(&["--image", "dir:/"]).exits(32).says("only images of registries have signatures");
    mount(&["--mode", "exec", "--container", "any"]).exits(1).says("the files of a container are not");
    assert_eq!(store(), before, "what is refused changes nothing");
    host.assert_nothing_left();

    repository.attach(digest, &[ours.sign(&host, &payload(&repository.full_name(), digest))]);
    mount(&["--offline"]).exits(32).says("it was not verified when it was fetched").says("--signed-by");
    for registry in [Some(registry), None] {
        mount(if registry.is_some() { &[] } else { &["--offline"] }).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("it is mounted"), b"content");
        host.shorefast(&["umount", text(&target)]).succeeds();
    }
    // What was verified with one key is not verified for another.
    demand(&other);
    mount(&["--offline"]).exits(32).says("it was not verified when it was fetched");
    demand(&ours);
    fs::remove_file(&ours.public).expect("/etc is the test's own");
    mount(&["--offline"]).exits(1).says("ours.pub").says("hint: ");
    host.assert_nothing_left();
}
