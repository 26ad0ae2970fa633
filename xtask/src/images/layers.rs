//! The layers that several images share.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{
    DEBIAN, WHEELS,
    debian::{self, Apt, Extent, Package, Plan},
    python,
    recipe::Recipe,
    torch,
    tree::Key,
    wheels,
};
use crate::oci::Layer;

/// The user of our images, as chart and webhook know it.
pub(super) const USER: &str = "65532:65532";
/// The code that decides what a folder of packages holds.
const CODE: [&str; 5] = [
    include_str!("debian.rs"),
    include_str!("unpack.rs"),
    include_str!("paths.rs"),
    include_str!("python.rs"),
    include_str!("../../images/debian.txt"),
];

/// Folders of the cache, each the content of one layer.
pub(super) struct Layers {
    pub(super) os: PathBuf,
    os_packages: Vec<Package>,
    python: Option<Python>,
    torch: Option<Torch>,
}

pub(super) struct Python {
    interpreter: PathBuf,
    wheels: PathBuf,
    packages: Vec<Package>,
}

pub(super) struct Torch {
    tree: PathBuf,
    packages: Vec<Package>,
}

impl Layers {
    /// Makes the folders that are missing, as far as an image needs them.
    pub(super) fn take(folder: &Path, extent: Extent) -> Result<Self> {
        let recipe = Recipe::parse(DEBIAN)?;
        let apt = Apt::new(folder)?;
        let Plan { os: os_packages, python: python_packages, torch: torch_packages } =
            apt.take(&recipe, extent)?;
        let trees = folder.join("trees");
        let os = apt.tree(&trees, "os", Key::new(&CODE), &os_packages, &recipe, debian::finish_os)?;
        if extent < Extent::Python {
            return Ok(Self { os, os_packages, python: None, torch: None });
        }
        // The interpreter is checked and compiles its modules with the OS layer's libraries.
        let key = Key::new(&CODE).with(base_name(&os));
        let finish = |root: &Path| python::finish(&os, root);
        let interpreter = apt.tree(&trees, "python", key, &python_packages, &recipe, finish)?;
        let torch = if extent < Extent::Torch {
            None
        } else {
            let key = Key::new(&CODE).with(include_str!("torch.rs")).with(base_name(&interpreter));
            let finish = |root: &Path| torch::finish(&os, &interpreter, root);
            let tree = apt.tree(&trees, "torch", key, &torch_packages, &recipe, finish)?;
            Some(Torch { tree, packages: torch_packages })
        };
        let wheels = wheels::tree(folder, WHEELS, &os, &interpreter)?;
        let python = Some(Python { interpreter, wheels, packages: python_packages });
        Ok(Self { os, os_packages, python, torch })
    }

    /// The layer below all others.
    pub(super) fn os(&self) -> Result<Layer> {
        Layer::base().tree("", &self.os, |_| true)
    }

    pub(super) fn python(&self) -> Result<&Python> {
        self.python.as_ref().context("the Python layers were not asked for")
    }

    pub(super) fn torch(&self) -> Result<&Torch> {
        self.torch.as_ref().context("the layer of torch was not asked for")
    }

    /// Which packages an image of these layers holds, for its label.
    pub(super) fn packages(&self, extent: Extent) -> String {
        let python = self.python.iter().filter(|_| extent >= Extent::Python);
        let torch = self.torch.iter().filter(|_| extent >= Extent::Torch);
        let above = python.flat_map(|python| &python.packages).chain(torch.flat_map(|torch| &torch.packages));
        debian::label(self.os_packages.iter().chain(above))
    }
}

impl Python {
    pub(super) fn interpreter(&self) -> Result<Layer> {
        whole(&self.interpreter)
    }

    pub(super) fn wheels(&self) -> Result<Layer> {
        whole(&self.wheels)
    }

    pub(super) fn wheels_label(&self) -> Result<String> {
        Ok(wheels::label(&wheels::parse(WHEELS)?))
    }

    /// What a key has of both layers.
    pub(super) fn key(&self, key: Key) -> Key {
        key.with(base_name(&self.interpreter)).with(base_name(&self.wheels))
    }
}

impl Torch {
    pub(super) fn layer(&self) -> Result<Layer> {
        whole(&self.tree)
    }

    /// The layer stands on the interpreter's, and its folder's name changes with that.
    pub(super) fn key(&self, key: Key) -> Key {
        key.with(base_name(&self.tree))
    }
}

fn whole(folder: &Path) -> Result<Layer> {
    Layer::new().tree("", folder, |_| true)
}

/// Ends in the folder's key, so it changes with the content.
pub(super) fn base_name(folder: &Path) -> &[u8] {
    folder.file_name().unwrap_or_default().as_encoded_bytes()
}

/// Adds the Python sources in `folder` at `path`: `.py` files and type markers, nothing that tools left beside them.
pub(super) fn sources(layer: Layer, path: &str, folder: &Path) -> Result<Layer> {
    layer.tree(path, folder, |source| {
        if source.is_dir() {
            source.file_name().is_none_or(|name| name != "__pycache__")
        } else {
            is_source(source)
        }
    })
}

pub(super) fn is_source(file: &Path) -> bool {
    let text = |end: &std::ffi::OsStr| end == "py" || end == "txt";
    file.extension().is_some_and(text) || file.file_name().is_some_and(|name| name == "py.typed")
}
