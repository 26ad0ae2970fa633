//! The layers that several images share.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{
    DEBIAN, WHEELS,
    debian::{self, Apt, Package, Plan},
    python,
    recipe::Recipe,
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
    pub(super) python: Option<Python>,
}

pub(super) struct Python {
    pub(super) interpreter: PathBuf,
    pub(super) wheels: PathBuf,
    packages: Vec<Package>,
}

impl Layers {
    /// Makes the folders that are missing; those of Python only when an image needs them.
    pub(super) fn take(folder: &Path, with_python: bool) -> Result<Self> {
        let recipe = Recipe::parse(DEBIAN)?;
        let apt = Apt::new(folder)?;
        let Plan { os: os_packages, python: packages } = apt.take(&recipe, with_python)?;
        let trees = folder.join("trees");
        let os = apt.tree(&trees, "os", Key::new(&CODE), &os_packages, &recipe, debian::finish_os)?;
        let python = with_python.then(|| {
            // The interpreter is checked and compiles its modules with the OS layer's libraries.
            let key = Key::new(&CODE).with(base_name(&os));
            let finish = |root: &Path| python::finish(&os, root);
            let interpreter = apt.tree(&trees, "python", key, &packages, &recipe, finish)?;
            let wheels = wheels::tree(folder, WHEELS, &os, &interpreter)?;
            Ok::<_, anyhow::Error>(Python { interpreter, wheels, packages: packages.clone() })
        });
        Ok(Self { os, os_packages, python: python.transpose()? })
    }

    /// The layer below all others.
    pub(super) fn os(&self) -> Result<Layer> {
        Layer::base().tree("", &self.os, |_| true)
    }

    pub(super) fn python(&self) -> Result<&Python> {
        self.python.as_ref().context("the Python layers were not asked for")
    }

    /// Which packages an image of these layers holds, for its label.
    pub(super) fn packages(&self, with_python: bool) -> String {
        let python = self.python.iter().filter(|_| with_python).flat_map(|python| &python.packages);
        debian::label(self.os_packages.iter().chain(python))
    }
}

impl Python {
    pub(super) fn layers(&self) -> Result<[Layer; 2]> {
        let layer = |folder: &Path| Layer::new().tree("", folder, |_| true);
        Ok([layer(&self.interpreter)?, layer(&self.wheels)?])
    }

    pub(super) fn wheels_label(&self) -> Result<String> {
        Ok(wheels::label(&wheels::parse(WHEELS)?))
    }
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
