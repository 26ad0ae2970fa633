//! Compiles the protocol files with protox, so that no protoc is needed.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let control = protox::compile(["control.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(control)?;
    // The kubelet speaks these to the node agent.
    for file in ["csi.proto", "pluginregistration.proto"] {
        tonic_prost_build::configure().compile_fds(protox::compile([file], ["proto"])?)?;
    }
    let mut door = protox::compile(["door.proto"], ["proto"])?;
    // Tensor bytes stay where they were received.
    tonic_prost_build::configure()
        .bytes(".sealane.door.v1")
        .extern_path(".sealane.door.v1.PutTensor", "crate::put_tensor::PutTensor")
        .compile_fds(door.clone())?;
    // Reflection tells names and types; the comments are for readers of the file.
    door.file.iter_mut().for_each(|file| file.source_code_info = None);
    let path = PathBuf::from(std::env::var("OUT_DIR")?).join("door.bin");
    std::fs::write(path, door.encode_to_vec())?;
    Ok(())
}
