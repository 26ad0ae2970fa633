//! Compares what is committed under `src/generated` with what `proto/` generates. protox parses, so that no protoc is
//! needed, and only tests build the generators.

use std::{fs, path::Path};

use prost::Message as _;
use tonic_prost_build::{Builder, FileDescriptorSet};

/// Files of `proto/`, each with the name that prost gives its Rust, and that of the module here.
const FILES: [(&str, &str, &str); 5] = [
    ("control.proto", "sealane.control.v1.rs", "control.rs"),
    // The kubelet speaks these two to the node agent.
    ("csi.proto", "csi.v1.rs", "csi.rs"),
    ("pluginregistration.proto", "pluginregistration.rs", "registration.rs"),
    // And the node agent speaks this one to the runtime.
    ("cri.proto", "runtime.v1.rs", "cri.rs"),
    ("door.proto", "sealane.door.v1.rs", "door.rs"),
];

/// With `SEALANE_WRITE_PROTO` set, the test writes the files before it compares them.
#[test]
fn generated_rust_is_what_the_protocol_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = folder.join("src/generated");
    let mut files = Vec::new();
    for (proto, output, module) in FILES {
        let descriptors = protox::compile([proto], [folder.join("proto")]).unwrap();
        files.push((module, rust(proto, output, &descriptors)));
        if proto == "door.proto" {
            files.push(("door.bin", reflection(descriptors)));
        }
    }
    let mut differing = Vec::new();
    for (name, bytes) in files {
        let path = generated.join(name);
        if std::env::var_os("SEALANE_WRITE_PROTO").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        if fs::read(&path).ok().as_ref() != Some(&bytes) {
            differing.push(name);
        }
    }
    assert!(
        differing.is_empty(),
        "{differing:?} differ from proto/; item 8 of CONTRIBUTING.md says how to write them"
    );
}

fn rust(proto: &str, output: &str, descriptors: &FileDescriptorSet) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    builder(proto).out_dir(folder.path()).compile_fds(descriptors.clone()).unwrap();
    fs::read(folder.path().join(output)).unwrap()
}

fn builder(proto: &str) -> Builder {
    let builder = tonic_prost_build::configure();
    match proto {
        // Encoded once, and shared by all sidecars to which it goes.
        "control.proto" => {
            builder.bytes(".sealane.control.v1.Delta.changes").codec_path("crate::bounded::BoundedCodec")
        }
        // Tensor bytes stay where they were received.
        "door.proto" => builder
            .bytes(".sealane.door.v1")
            .extern_path(".sealane.door.v1.PutTensor", "crate::put_tensor::PutTensor"),
        _ => builder,
    }
}

/// The descriptors that the door's reflection tells: names and types. The comments are for readers of the file.
fn reflection(mut descriptors: FileDescriptorSet) -> Vec<u8> {
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    descriptors.encode_to_vec()
}
