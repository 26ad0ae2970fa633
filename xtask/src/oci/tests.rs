use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    time::UNIX_EPOCH,
};

use super::{Archive, Digest, Image, Layer, inspect};

type Blobs = BTreeMap<String, Vec<u8>>;

fn unpack(bytes: &[u8]) -> Blobs {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), bytes)
    });
    entries.collect()
}

/// Follows a descriptor, checking that digest and size are those of the blob.
fn blob<'a>(blobs: &'a Blobs, descriptor: &serde_json::Value) -> &'a [u8] {
    let digest = descriptor["digest"].as_str().unwrap();
    let bytes = &blobs[&format!("blobs/{}", digest.replace(':', "/"))];
    assert_eq!(Digest::of(bytes).as_str(), digest);
    assert_eq!(descriptor["size"].as_u64().unwrap(), bytes.len() as u64);
    bytes
}

#[test]
fn same_inputs_give_the_same_bytes_whatever_their_order_age_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, b"#!/bin/sh\n").unwrap();

    let layer = Layer::new()
        .copy("usr/bin/program", 0o755, &program)
        .file("etc/one", 0o644, "1")
        .link("a", "etc/one");
    let image = Image::new("localhost/app:1").layer(layer).env("B", "2").env("A", "1");
    let first = folder.path().join("first.tar");
    let first_digest = image.write(&first).unwrap();

    File::options().append(true).open(&program).unwrap().set_modified(UNIX_EPOCH).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).unwrap();
    let layer = Layer::new().link("/a", "etc/one").file("etc/one", 0o644, "1").copy(
        "usr/bin/program",
        0o755,
        &program,
    );
    let image = Image::new("localhost/app:1").layer(layer).env("A", "1").env("B", "2");
    let second = folder.path().join("second.tar");

    assert_eq!(image.write(&second).unwrap(), first_digest);
    assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap());
}

#[test]
fn every_descriptor_matches_its_blob() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tar");
    let image = Image::new("localhost/app:1")
        .layer(Layer::base())
        .layer(Layer::new().file("app", 0o755, "program"))
        .entrypoint(["/app"])
        .cmd(["run", "--all"])
        .user("65532:65532")
        .workdir("/tmp")
        .label("version", "1");
    let digest = image.write(&path).unwrap();
    assert_eq!(
        inspect(&path).unwrap(),
        Archive { name: "localhost/app:1".to_owned(), digest: digest.clone() }
    );

    let blobs = unpack(&fs::read(&path).unwrap());
    let index: serde_json::Value = serde_json::from_slice(&blobs["index.json"]).unwrap();
    let entry = &index["manifests"][0];
    assert_eq!(entry["digest"], digest.as_str());
    assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "1");
    let manifest: serde_json::Value = serde_json::from_slice(blob(&blobs, entry)).unwrap();
    let config: serde_json::Value = serde_json::from_slice(blob(&blobs, &manifest["config"])).unwrap();
    assert_eq!(config["config"]["Entrypoint"][0], "/app");
    assert_eq!(config["config"]["Cmd"][1], "--all");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["WorkingDir"], "/tmp");
    assert_eq!(config["config"]["Labels"]["version"], "1");

    let layers = manifest["layers"].as_array().unwrap();
    let diff_ids = config["rootfs"]["diff_ids"].as_array().unwrap();
    assert_eq!(
        layers.iter().map(|layer| &layer["digest"]).collect::<Vec<_>>(),
        diff_ids.iter().collect::<Vec<_>>()
    );
    let base = unpack(blob(&blobs, &layers[0]));
    assert_eq!(base.keys().collect::<Vec<_>>(), ["etc", "etc/group", "etc/passwd", "tmp"]);
    assert_eq!(unpack(blob(&blobs, &layers[1]))["app"], b"program");
}

#[test]
fn a_tree_keeps_links_and_leaves_out_what_was_not_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("inner/cache")).unwrap();
    fs::write(source.join("inner/cache/stale"), "x").unwrap();
    fs::write(source.join("inner/module.py"), "pass").unwrap();
    symlink("module.py", source.join("inner/alias.py")).unwrap();

    let layer = Layer::new().tree("opt/app", &source, |path| !path.ends_with("cache")).unwrap();
    let written = layer.write(folder.path()).unwrap();
    let bytes = fs::read(written.file.path()).unwrap();
    assert_eq!(written.size, bytes.len() as u64);
    assert_eq!(written.digest, Digest::of(&bytes));
    let files = unpack(&bytes);
    let expected = ["opt", "opt/app", "opt/app/inner", "opt/app/inner/alias.py", "opt/app/inner/module.py"];
    assert_eq!(files.keys().collect::<Vec<_>>(), expected);
}

#[test]
fn long_paths_survive() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("opt/{}/file", ["component"; 30].join("/"));
    let written = Layer::new().file(&long, 0o644, "x").write(folder.path()).unwrap();
    let files = unpack(&fs::read(written.file.path()).unwrap());
    assert_eq!(files[&long], b"x");
}

#[test]
fn what_could_leave_the_image_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["../etc/passwd", "a/../b", "a//b", "./a", ""] {
        assert!(Layer::new().file(path, 0o644, "").write(folder.path()).is_err(), "{path:?}");
    }
    assert!(Image::new("localhost:5000/untagged").write(&folder.path().join("x.tar")).is_err());
    fs::write(folder.path().join("text"), "not a tar").unwrap();
    assert!(inspect(&folder.path().join("text")).is_err());
}
