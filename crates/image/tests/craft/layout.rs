//! Images in OCI layout, honest or not.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shorefast_image::Digest;

/// All parts of an image before they are written; each can be falsified.
pub(crate) struct Layout {
    /// As they are distributed.
    pub(crate) layers: Vec<Vec<u8>>,
    pub(crate) diff_ids: Vec<Digest>,
    pub(crate) architecture: String,
    pub(crate) media_type: String,
    /// What to add to each layer's announced size.
    pub(crate) size_lie: i64,
    /// Indexes between index.json and the manifest.
    pub(crate) indexes: u32,
    /// Changes the files afterwards.
    pub(crate) tamper: fn(&Path),
}

impl Layout {
    pub(crate) fn of(layers: Vec<Vec<u8>>) -> Self {
        Self {
            diff_ids: layers.iter().map(|layer| Digest::of(layer)).collect(),
            layers,
            architecture: shorefast_image::manifest::Platform::here().architecture,
            media_type: "application/vnd.oci.image.layer.v1.tar".to_owned(),
            size_lie: 0,
            indexes: 0,
            tamper: |_| {},
        }
    }

    pub(crate) fn write(&self, directory: &Path) {
        let blobs = directory.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let blob = |content: &[u8], media_type: &str| {
            let digest = Digest::of(content);
            fs::write(blobs.join(digest.hex()), content).unwrap();
            json!({ "mediaType": media_type, "digest": digest, "size": content.len() })
        };
        let mut layers: Vec<_> = self.layers.iter().map(|layer| blob(layer, &self.media_type)).collect();
        for layer in &mut layers {
            layer["size"] = json!(layer["size"].as_i64().unwrap() + self.size_lie);
        }
        let config = json!({ "os": "linux", "architecture": self.architecture, "rootfs": { "type": "layers", "diff_ids": self.diff_ids } });
        let config = blob(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers });
        let mut last: Value = blob(manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        for _ in 0..self.indexes {
            let index = json!({ "schemaVersion": 2, "manifests": [last] });
            last = blob(index.to_string().as_bytes(), "application/vnd.oci.image.index.v1+json");
        }
        fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        fs::write(directory.join("index.json"), json!({ "schemaVersion": 2, "manifests": [last] }).to_string()).unwrap();
        (self.tamper)(directory);
    }
}
