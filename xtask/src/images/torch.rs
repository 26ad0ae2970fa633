//! The layer of torch, as Debian builds it: for the processor alone. Its modules are not compiled ahead, which takes
//! longer than the few starts of it.

use std::path::Path;

use anyhow::{Context, Result};

use super::{
    loader::{self, Loader},
    python, tree,
};

/// Names in the library folder that Debian's alternatives give when packages are installed, and to whom here.
const ALTERNATIVES: [(&str, &str); 2] =
    [("libblas.so.3", "blas/libblas.so.3"), ("liblapack.so.3", "lapack/liblapack.so.3")];

const CHECK: &str = "import torch, torch.distributed
assert torch.ones(4, 4).matmul(torch.ones(4, 4)).sum() == 64
assert torch.distributed.is_available() and torch.distributed.TCPStore";

/// Completes the folder of torch's packages.
pub(super) fn finish(os: &Path, interpreter: &Path, root: &Path) -> Result<()> {
    let folder = format!("usr/lib/{}", loader::triplet(os)?);
    for (name, target) in ALTERNATIVES {
        tree::link(root, &format!("{folder}/{name}"), target)?;
    }
    let packages = root.join(python::PACKAGES);
    let loader = Loader::new(os, &[interpreter, root])?;
    python::check_libraries(&loader, &packages)?;
    python::run(&loader, interpreter, &[&packages], &["-c", CHECK])
        .context("torch does not work in its image")?;
    Ok(())
}
