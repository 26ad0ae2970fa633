//! The interpreter's layer: compiled ahead, checked by starting it, with a shell for humans.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::{loader::Loader, tree};
use crate::process;

pub(super) const INTERPRETER: &str = "usr/bin/python3.11";
/// Where Debian's interpreter looks for packages that did not come with it.
pub(super) const PACKAGES: &str = "usr/lib/python3/dist-packages";

/// What the interpreter must be able to do in every image, `ssl` included.
const CHECK: &str =
    "import asyncio, ctypes, hashlib, json, mmap, multiprocessing, socket, sqlite3, ssl, uuid, zlib
import lzma, bz2
ssl.create_default_context()
hashlib.sha256(b'').hexdigest()";

/// Completes the folder of the interpreter's packages.
pub(super) fn finish(os: &Path, root: &Path) -> Result<()> {
    tree::link(root, "usr/bin/python3", "python3.11")?;
    link_shell(root)?;
    let loader = Loader::new(os, &[root])?;
    check_libraries(&loader, root)?;
    run(&loader, root, &[], &["-c", CHECK]).context("the image's Python does not work")?;
    compile(os, root, root, "usr/lib/python3.11")
}

/// Compiles modules ahead: containers cannot write, so that each start would compile them again. `unchecked-hash`
/// keeps times out of the files.
pub(super) fn compile(os: &Path, python: &Path, root: &Path, folder: &str) -> Result<()> {
    let modules = root.join(folder);
    let (root, modules) = (root.as_os_str(), modules.as_os_str());
    let mut words: Vec<&OsStr> =
        ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"].map(OsStr::new).into();
    words.extend([OsStr::new("-s"), root, OsStr::new("-p"), OsStr::new("/"), modules]);
    run(&Loader::new(os, &[python])?, python, &[], &words).context("compile Python modules")?;
    Ok(())
}

/// Runs the image's interpreter on this machine; `packages` are folders to import from.
pub(super) fn run<S: AsRef<OsStr>>(
    loader: &Loader,
    python: &Path,
    packages: &[&Path],
    words: &[S],
) -> Result<String> {
    let search = std::env::join_paths(packages)?;
    let mut command = loader.command(&python.join(INTERPRETER));
    command.args(words).env("PYTHONHOME", python.join("usr")).env("PYTHONPATH", search);
    // The order of hashed sets must not reach compiled modules, and a check must not leave any.
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONNOUSERSITE", "1");
    process::text(&mut command)
}

/// That every native module below `root` finds its libraries.
pub(super) fn check_libraries(loader: &Loader, root: &Path) -> Result<()> {
    for file in tree::files(root)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".so") || name.contains(".so.") {
            loader.check(&file)?;
        }
    }
    Ok(())
}

/// Links each of busybox's tools to it, except where the image has its own.
fn link_shell(root: &Path) -> Result<()> {
    let busybox = root.join("usr/bin/busybox");
    for tool in process::text(Command::new(&busybox).arg("--list"))?.lines() {
        let path = format!("usr/bin/{tool}");
        if fs::symlink_metadata(root.join(&path)).is_err() {
            tree::link(root, &path, "busybox")?;
        }
    }
    Ok(())
}
