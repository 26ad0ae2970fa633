//! Starting programs of an image from its folders, without root: through the image's own dynamic loader, with the
//! image's own libraries. What works here finds its libraries in a container too.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::process;

/// Folders that lie over one another in an image, the OS layer first.
#[derive(Debug)]
pub(super) struct Loader {
    trees: Vec<PathBuf>,
    program: PathBuf,
    libraries: String,
}

impl Loader {
    pub(super) fn new(os: &Path, above: &[&Path]) -> Result<Self> {
        let triplet = triplet(os)?;
        let folder = os.join("usr/lib").join(&triplet);
        let program = entries(&folder)?.into_iter().find(|path| is_loader(path));
        let program = program.with_context(|| format!("no dynamic loader in {}", folder.display()))?;
        let trees: Vec<_> = std::iter::once(os).chain(above.iter().copied()).map(Path::to_owned).collect();
        // The C library's own search, in that order.
        let folders = trees.iter().flat_map(|tree| {
            let plain = tree.join("usr/lib");
            [plain.join(&triplet), plain]
        });
        let libraries = folders.map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":");
        Ok(Self { trees, program, libraries })
    }

    /// A command that starts `program` with nothing of this machine in its environment.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--inhibit-cache", "--library-path", &self.libraries]).arg(program).env_clear();
        command
    }

    /// That the image has every library `file` needs.
    pub(super) fn check(&self, file: &Path) -> Result<()> {
        let mut list = Command::new(&self.program);
        list.args(["--inhibit-cache", "--library-path", &self.libraries, "--list"]).arg(file).env_clear();
        let printed = process::text(&mut list)
            .with_context(|| format!("{} needs a library that the image lacks", file.display()))?;
        let missing = outside(&printed, &self.trees);
        ensure!(
            missing.is_empty(),
            "{} needs {}, which the image lacks: add the package to xtask/images/debian.txt",
            file.display(),
            missing.join(", ")
        );
        Ok(())
    }
}

/// The libraries that a loader's `--list` found outside of `trees`, or not at all. Lines are `NAME => PATH (ADDRESS)`
/// or, for the loader itself and the kernel's vdso, `NAME (ADDRESS)`.
fn outside(printed: &str, trees: &[PathBuf]) -> Vec<String> {
    let libraries = printed.lines().filter_map(|line| line.trim().split_once(" => "));
    let libraries = libraries.map(|(name, found)| (name, found.split(" (").next().unwrap_or_default()));
    // The loader in the program's own header is not used: this very loader is running.
    let missing = libraries.filter(|(name, found)| {
        !is_loader(Path::new(name)) && !trees.iter().any(|tree| Path::new(found).starts_with(tree))
    });
    missing.map(|(name, _)| name.to_owned()).collect()
}

fn is_loader(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
}

/// Debian's name of the architecture's library folder, as the C library has it: `x86_64-linux-gnu`.
pub(super) fn triplet(os: &Path) -> Result<String> {
    let folder = os.join("usr/lib");
    let found = entries(&folder)?.into_iter().find(|path| path.join("libc.so.6").exists());
    let name = found.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    Ok(name.with_context(|| format!("no C library below {}", folder.display()))?.to_owned())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_this_machine_does_not_count() {
        let printed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /t/os/usr/lib/libc.so.6 (0x2)\n\
            \tlibssl.so.3 => /usr/lib/libssl.so.3 (0x3)\n\tlibx.so => not found\n\
            \t/lib64/ld-linux-x86-64.so.2 => /usr/lib/ld.so (0x4)\n";
        assert_eq!(outside(printed, &["/t/os".into()]), ["libssl.so.3", "libx.so"]);
        assert!(outside("\tstatically linked\n", &[]).is_empty());
    }
}
