//! The other names of the binary: kubelet's mounter, mount(8)'s helpers; and where all of them find their configuration.

#[path = "fronts/configuration.rs"]
mod configuration;
#[path = "fronts/helpers.rs"]
mod helpers;
#[path = "fronts/mounter.rs"]
mod mounter;

use shorefast_tests::Client;
use shorefast_tests::path::text;

/// A whole definition for a client of tests/clients, as an administrator would write it: with its image.
fn with_image(client: &'static str) -> String {
    let client = Client::named(client);
    let definition = std::fs::read_to_string(&client.definition).expect("a client definition can be read");
    format!("image = \"dir:{}\"\n{definition}", client.image_directory().display())
}

/// A client whose helper is a shell script: `$1` is the target.
fn script(script: &str) -> String {
    let script = toml::Value::String(script.to_owned());
    let image = Client::named("tmpfs").image_directory();
    format!(
        "types = [\"script\"]\nkernel_types = [\"tmpfs\"]\nimage = \"dir:{}\"\ncommand = [\"sh\", \"-c\", {script}, \"sh\", \"{{target}}\", \"{{options}}\"]\n",
        image.display()
    )
}
