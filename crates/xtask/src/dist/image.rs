//! A container image as an archive: the layout of OCI, and the list that `docker load` reads.
//!
//! See the OCI image specification, version 1.1. The health check is an extension of Docker, which other runtimes ignore.

use std::io;

use flate2::Compression;
use serde_json::{Value, json};

use super::checksums::sha256;
use super::file_tree::{FileTree, READABLE, gzip};

/// The user and the group that the server has in a container. A number, because Kubernetes checks it.
pub(crate) const USER: u32 = 10_001;

/// The port of the server in a container.
const PORT: u16 = 8787;

const NANOSECONDS: u64 = 1_000_000_000;

/// The facts that the image states about itself.
pub(crate) struct ImageFacts<'a> {
    pub(crate) version: &'a str,
    /// Go's name of the architecture.
    pub(crate) architecture: &'a str,
    /// The time of the source, as RFC 3339 writes it.
    pub(crate) created: &'a str,
    pub(crate) epoch: u64,
}

/// The image as bytes: one layer with these files.
pub(crate) fn archive(facts: &ImageFacts<'_>, files: &FileTree, level: Compression) -> io::Result<Vec<u8>> {
    let tar = files.tar(facts.epoch)?;
    let layer = gzip(&tar, level)?;
    let config = config(facts, &sha256(&tar)).to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
        "annotations": { "org.opencontainers.image.version": facts.version },
    });
    let manifest = manifest.to_string().into_bytes();
    let name = format!("rondo:{}", facts.version);
    let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    if let Some(listed) = listed.as_object_mut() {
        listed.insert("platform".into(), json!({ "architecture": facts.architecture, "os": "linux" }));
        let names = json!({
            "io.containerd.image.name": format!("docker.io/library/{name}"),
            "org.opencontainers.image.ref.name": facts.version,
        });
        listed.insert("annotations".into(), names);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [listed],
    });
    let of_docker = json!([{ "Config": path(&config), "RepoTags": [name], "Layers": [path(&layer)] }]);
    let mut layout = FileTree::default();
    layout.add_file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string(), READABLE);
    layout.add_file("index.json", index.to_string(), READABLE);
    layout.add_file("manifest.json", of_docker.to_string(), READABLE);
    for blob in [config, manifest, layer] {
        layout.add_file(&path(&blob), blob, READABLE);
    }
    layout.tar(facts.epoch)
}

/// The settings of a container, and the sum of its layer.
fn config(facts: &ImageFacts<'_>, layer: &str) -> Value {
    json!({
        "created": facts.created,
        "architecture": facts.architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { format!("{PORT}/tcp"): {} },
            "Env": [
                "PATH=/usr/bin",
                // The server starts there only with TLS, or if the operator says that a proxy encrypts.
                format!("RONDO_LISTEN=0.0.0.0:{PORT}"),
                "RONDO_DATA=/data",
                "TMPDIR=/data",
            ],
            "Entrypoint": ["/usr/bin/rondo"],
            "Cmd": ["serve"],
            "WorkingDir": "/etc/rondo",
            "Volumes": { "/data": {} },
            // The server ends within 32 seconds.
            "StopSignal": "SIGTERM",
            "StopTimeout": 40,
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/rondo", "health"],
                "Interval": 30 * NANOSECONDS,
                "Timeout": 6 * NANOSECONDS,
                "StartPeriod": 30 * NANOSECONDS,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "rondo",
                "org.opencontainers.image.version": facts.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": facts.created, "created_by": "cargo xtask dist" }],
    })
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(blob)), "size": blob.len() })
}

fn path(blob: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(blob))
}

/// The layer of an archive, uncompressed.
pub(crate) fn layer(archive: &[u8]) -> Result<Vec<u8>, String> {
    let manifest: Value = serde_json::from_slice(&member(archive, "manifest.json")?)
        .map_err(|error| format!("the image has a bad manifest.json: {error}"))?;
    let layer = manifest.pointer("/0/Layers/0").and_then(Value::as_str).unwrap_or_default();
    let packed = member(archive, layer)?;
    let mut tar = Vec::new();
    io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut tar)
        .map_err(|error| format!("the layer cannot be unpacked: {error}"))?;
    Ok(tar)
}

fn member(archive: &[u8], name: &str) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("the image cannot be read: {error}");
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        if *entry.path_bytes() == *name.as_bytes() {
            let mut content = Vec::new();
            io::Read::read_to_end(&mut entry, &mut content).map_err(unreadable)?;
            return Ok(content);
        }
    }
    Err(format!("the image has no {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::file_tree::OPEN;

    const FACTS: ImageFacts<'static> =
        ImageFacts { version: "1.2.3", architecture: "arm64", created: "2026-01-02T03:04:05Z", epoch: 7 };

    fn image() -> (Vec<u8>, FileTree) {
        let mut files = FileTree::default();
        files.add_file("usr/bin/rondo", "program", OPEN);
        (archive(&FACTS, &files, Compression::fast()).unwrap(), files)
    }

    fn json_member(archive: &[u8], name: &str) -> Value {
        serde_json::from_slice(&member(archive, name).unwrap()).unwrap()
    }

    #[test]
    fn every_blob_is_named_by_its_sum_and_leads_to_the_layer() {
        let (image, files) = image();
        assert_eq!(json_member(&image, "oci-layout")["imageLayoutVersion"], "1.0.0");
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            let content = member(&image, &format!("blobs/sha256/{digest}")).unwrap();
            assert_eq!((sha256(&content), json!(content.len())), (digest, descriptor["size"].clone()));
            content
        };
        let index = json_member(&image, "index.json");
        assert_eq!(index["manifests"][0]["platform"], json!({ "architecture": "arm64", "os": "linux" }));
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        blob(&manifest["layers"][0]);
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let tar = files.tar(7).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&tar)));
        assert_eq!(config["config"]["User"], "10001:10001");
        assert_eq!(layer(&image).unwrap(), tar, "as docker reads it");
    }

    #[test]
    fn the_same_files_make_the_same_image() {
        assert_eq!(image().0, image().0);
    }

    #[test]
    fn an_archive_without_a_layer_is_refused() {
        let empty = FileTree::default().tar(0).unwrap();
        assert_eq!(layer(&empty), Err("the image has no \"manifest.json\"".to_owned()));
    }
}
