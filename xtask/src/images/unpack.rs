//! A Debian package's files, without installing it: no root, no maintainer scripts.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{paths, tree};
use crate::process;

/// Unpacks the files and links of `package` into `root`, with merged `/usr`, except those that `prune` takes.
/// Folders appear only with something in them; owners are dropped.
pub(super) fn unpack(package: &Path, root: &Path, prune: impl Fn(&str) -> bool) -> Result<()> {
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = dpkg.spawn().map_err(|error| process::start_error(&dpkg, error))?;
    let stream = child.stdout.take().context("dpkg-deb has no output")?;
    let unpacked = extract(stream, root, prune).with_context(|| format!("unpack {}", package.display()));
    // Waited for in any case, so that no process is left behind; its own failure explains a broken stream.
    let status = child.wait()?;
    ensure!(status.success() || unpacked.is_err(), "dpkg-deb cannot read {} ({status})", package.display());
    unpacked
}

fn extract(stream: impl io::Read, root: &Path, prune: impl Fn(&str) -> bool) -> Result<()> {
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let Some(path) = paths::merged(&entry.path()?)? else { continue };
        if prune(&path) {
            continue;
        }
        match entry.header().entry_type() {
            tar::EntryType::Directory => {}
            tar::EntryType::Regular => {
                let full = tree::place(root, &path)?;
                let mut file = fs::File::create_new(&full).with_context(|| format!("create {path}"))?;
                io::copy(&mut entry, &mut file).with_context(|| format!("write {path}"))?;
                let mode = if entry.header().mode()? & 0o111 == 0 { 0o644 } else { 0o755 };
                fs::set_permissions(full, fs::Permissions::from_mode(mode))?;
            }
            tar::EntryType::Symlink => {
                let target = entry.link_name()?.with_context(|| format!("{path} links nowhere"))?;
                tree::link(root, &path, target)?;
            }
            tar::EntryType::Link => {
                let target = entry.link_name()?.with_context(|| format!("{path} links nowhere"))?;
                let target = paths::merged(&target)?.with_context(|| format!("{path} links to the root"))?;
                let source = tree::place(root, &target)?;
                let plain = fs::symlink_metadata(&source).is_ok_and(|metadata| metadata.is_file());
                ensure!(plain, "{path} is the same file as {target}, which is not here");
                fs::copy(source, tree::place(root, &path)?).with_context(|| format!("write {path}"))?;
            }
            other => bail!("{path} is of the kind {other:?}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        fill(&mut tar);
        tar.into_inner().unwrap()
    }

    fn add(tar: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, path: &str, mode: u32, link: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        // Written as bytes: the library refuses to write what a hostile archive may hold.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        let body: &[u8] = if kind == tar::EntryType::Regular { b"body" } else { b"" };
        header.set_size(body.len() as u64);
        header.set_cksum();
        tar.append(&header, body).unwrap();
    }

    #[test]
    fn files_links_and_modes_arrive_merged_and_pruned() {
        let root = tempfile::tempdir().unwrap();
        let bytes = archive(|tar| {
            add(tar, tar::EntryType::Directory, "./usr/share/empty/", 0o755, "");
            add(tar, tar::EntryType::Regular, "./bin/tool", 0o4755, "");
            add(tar, tar::EntryType::Link, "./bin/same", 0o755, "./bin/tool");
            add(tar, tar::EntryType::Symlink, "./usr/bin/alias", 0o777, "tool");
            add(tar, tar::EntryType::Regular, "./usr/share/man/page", 0o644, "");
        });
        extract(bytes.as_slice(), root.path(), |path| path.starts_with("usr/share/man/")).unwrap();
        let read = |path: &str| fs::read(root.path().join(path));
        assert_eq!(read("usr/bin/tool").unwrap(), b"body");
        assert_eq!(read("usr/bin/same").unwrap(), b"body");
        assert_eq!(read("usr/bin/alias").unwrap(), b"body");
        let mode = fs::metadata(root.path().join("usr/bin/tool")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert!(!root.path().join("usr/share").exists());
    }

    #[test]
    fn hostile_members_are_refused() {
        for (kind, path, link) in [
            (tar::EntryType::Regular, "../outside", ""),
            (tar::EntryType::Regular, "/outside", ""),
            (tar::EntryType::Link, "inside", "../../etc/passwd"),
            (tar::EntryType::Char, "null", ""),
        ] {
            let root = tempfile::tempdir().unwrap();
            let bytes = archive(|tar| add(tar, kind, path, 0o644, link));
            assert!(extract(bytes.as_slice(), root.path(), |_| false).is_err(), "{path}");
        }
        let root = tempfile::tempdir().unwrap();
        let bytes = archive(|tar| {
            add(tar, tar::EntryType::Symlink, "door", 0o777, "/tmp");
            add(tar, tar::EntryType::Regular, "door/sealane-escaped", 0o644, "");
        });
        assert!(extract(bytes.as_slice(), root.path(), |_| false).is_err());
        assert!(!Path::new("/tmp/sealane-escaped").exists());
    }
}
