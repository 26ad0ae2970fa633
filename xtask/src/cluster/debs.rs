//! Programs from Debian packages, unpacked beside the system instead of installed into it.
//!
//! apt decides what is missing on this machine, including libraries; what it has already is used as it is.

use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    cache::{BUILDERS, Cache},
    privilege,
};
use crate::{
    process::{check, find, require, text},
    progress::step,
};

const PACKAGES: [&str; 6] =
    ["busybox-static", "containerd", "containernetworking-plugins", "iproute2", "nftables", "runc"];

/// Folders of a package tree whose programs the nodes may call.
const PROGRAM_FOLDERS: [&str; 4] = ["usr/bin", "usr/sbin", "bin", "sbin"];

/// The root of an unpacked package tree.
#[derive(Clone, Debug)]
pub(super) struct Debs {
    root: PathBuf,
}

impl Debs {
    /// Downloads and unpacks what the machine lacks, once per release of its system.
    pub(super) fn prepare(cache: &Cache) -> Result<Self> {
        let release = fs::read("/etc/os-release").unwrap_or_default();
        let packages = PACKAGES.join(" ");
        let folder = cache.get("debs", &[packages.as_bytes(), &release], |folder| {
            require(&BUILDERS)?;
            step("Fetching containerd, runc and network tools from the system's packages", || fetch(folder))
        })?;
        Ok(Self { root: folder })
    }

    /// An unpacked program, or the system's.
    pub(super) fn program(&self, name: &str) -> Result<PathBuf> {
        let unpacked = PROGRAM_FOLDERS.iter().map(|folder| self.root.join(folder).join(name));
        let found = unpacked.into_iter().find(|path| path.is_file()).or_else(|| find(name));
        found.with_context(|| format!("{name} is neither in the system nor in its packages"))
    }

    /// The folder of the network plugins.
    pub(super) fn network_plugins(&self) -> Result<PathBuf> {
        let candidates = [self.root.join("usr/lib/cni"), "/usr/lib/cni".into(), "/opt/cni/bin".into()];
        candidates
            .into_iter()
            .find(|folder| folder.join("bridge").is_file())
            .context("the CNI plugins are missing")
    }

    /// Makes one small script per unpacked program in `folder`, which lets it find its unpacked libraries.
    pub(super) fn link_programs(&self, folder: &Path) -> Result<()> {
        let libraries: Vec<_> =
            self.library_folders()?.iter().map(|folder| folder.display().to_string()).collect();
        let plugins = self.library_folders()?.into_iter().map(|f| f.join("xtables")).find(|f| f.is_dir());
        let mut prefix = format!("#!/bin/sh\nexport LD_LIBRARY_PATH={}\n", libraries.join(":"));
        if let Some(plugins) = plugins {
            prefix += &format!("export XTABLES_LIBDIR={}\n", plugins.display());
        }
        for source in PROGRAM_FOLDERS.iter().map(|name| self.root.join(name)) {
            let Ok(entries) = fs::read_dir(&source) else { continue };
            for entry in entries {
                let program = entry?.path();
                if program.is_file() {
                    let name = program.file_name().unwrap_or_default();
                    script(&folder.join(name), &prefix, &program)?;
                }
            }
        }
        // The package leaves this name to the alternatives system; the portmap plugin calls it.
        let iptables = self.root.join("usr/sbin/iptables-nft");
        if iptables.is_file() {
            script(&folder.join("iptables"), &prefix, &iptables)?;
        }
        Ok(())
    }

    /// `usr/lib/x86_64-linux-gnu` and the like.
    fn library_folders(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for parent in ["usr/lib", "lib"].map(|name| self.root.join(name)) {
            let Ok(entries) = fs::read_dir(parent) else { continue };
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() && path.to_string_lossy().ends_with("-linux-gnu") {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn script(path: &Path, prefix: &str, program: &Path) -> Result<()> {
    fs::write(path, format!("{prefix}exec {} \"$@\"\n", program.display()))?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o755))?;
    Ok(())
}

fn fetch(folder: &Path) -> Result<()> {
    let missing = match missing_packages() {
        Ok(missing) => missing,
        // A fresh machine has no package lists.
        Err(_) => update().and_then(|()| missing_packages())?,
    };
    let downloads = tempfile::tempdir_in(folder.parent().unwrap_or(folder))?;
    if !missing.is_empty() && download(&missing, downloads.path()).is_err() {
        // Lists that are too old name versions that are no longer offered.
        update()?;
        download(&missing_packages()?, downloads.path())?;
    }
    for package in fs::read_dir(downloads.path())? {
        check(Command::new("dpkg").arg("-x").arg(package?.path()).arg(folder))?;
    }
    Ok(())
}

/// What apt would install, that is: the packages and their dependencies that this machine does not have.
fn missing_packages() -> Result<Vec<String>> {
    let mut command = Command::new("apt-get");
    command
        .args(["install", "--simulate", "--no-install-recommends", "--quiet"])
        .args(PACKAGES)
        .env("LC_ALL", "C");
    Ok(parse_simulation(&text(&mut command)?))
}

/// Lines read `Inst runc (1.1.5+ds1-1 Debian:12.15/oldstable [amd64])`.
fn parse_simulation(output: &str) -> Vec<String> {
    let installs = output.lines().filter_map(|line| line.strip_prefix("Inst "));
    installs.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned).collect()
}

fn download(packages: &[String], folder: &Path) -> Result<()> {
    // As root, apt would download as a user who cannot write to this folder.
    let mut command = Command::new("apt-get");
    command.args(["download", "--quiet", "-o", "APT::Sandbox::User="]).args(packages).current_dir(folder);
    check(&mut command)
}

fn update() -> Result<()> {
    let mut command = privilege::command("apt-get")?;
    command.args(["update", "--quiet"]);
    check(&mut command).context("the package lists could not be brought up to date")
}

/// Fails with all programs that a node would not find with `folder` first on its `PATH`.
pub(super) fn check_programs(folder: &Path, names: &[&str]) -> Result<()> {
    let system = env::var_os("PATH").unwrap_or_default();
    let found =
        |name: &str| folder.join(name).exists() || env::split_paths(&system).any(|f| f.join(name).exists());
    let missing: Vec<_> = names.iter().copied().filter(|name| !found(name)).collect();
    if !missing.is_empty() {
        bail!("missing on this machine and not in its packages: {}", missing.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_says_what_is_missing() {
        let output = "NOTE: This is only a simulation!\nReading package lists...\n\
            Inst libnftnl11 (1.2.4-2 Debian:12.15/oldstable [amd64])\n\
            Inst runc [1.0] (1.1.5+ds1-1 Debian:12.15/oldstable [amd64])\nConf runc (1.1.5 …)\n";
        assert_eq!(parse_simulation(output), ["libnftnl11", "runc"]);
        assert!(parse_simulation("runc is already the newest version\n").is_empty());
    }

    #[test]
    fn programs_get_their_unpacked_libraries() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["usr/sbin", "usr/lib/x86_64-linux-gnu"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("/bin/sh", root.path().join("usr/sbin/nft")).unwrap();
        let links = tempfile::tempdir().unwrap();
        let debs = Debs { root: root.path().to_owned() };
        debs.link_programs(links.path()).unwrap();
        // Read by a shell: what was just written cannot be executed while a test beside this one starts a program.
        let words = ["-c", "echo \"$LD_LIBRARY_PATH $*\"", "sh", "a b", "c"];
        let said = text(Command::new("sh").arg(links.path().join("nft")).args(words)).unwrap();
        assert_eq!(said, format!("{}/usr/lib/x86_64-linux-gnu a b c\n", root.path().display()));
        check_programs(links.path(), &["nft", "sh"]).unwrap();
        assert!(check_programs(links.path(), &["no-such-program"]).is_err());
    }
}
