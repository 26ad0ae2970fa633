//! The project's own tooling: the local cluster, images, and the commands behind `make`.

mod oci;

fn main() {}
