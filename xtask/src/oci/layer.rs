//! One layer: a sorted set of files, folders and links, and the tar stream they become.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest;
use tar::{EntryType, Header};
use tempfile::NamedTempFile;

use super::Digest;

/// Paths inside the image are relative to its root; a leading `/` is accepted and dropped. A later entry replaces an
/// earlier one of the same path.
#[derive(Debug, Default)]
pub struct Layer {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    Folder {
        mode: u32,
    },
    Bytes {
        mode: u32,
        bytes: Vec<u8>,
    },
    /// Read only while the layer is written, so that large files never sit in memory.
    File {
        mode: u32,
        source: PathBuf,
    },
    Link {
        target: String,
    },
}

/// A layer's tar on disk, gone when dropped.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) file: NamedTempFile,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl Layer {
    pub fn new() -> Self {
        Self::default()
    }

    /// What nearly every program expects of a root file system: users, groups and a place for temporary files.
    /// `sealane` (65532) is the user of our own images.
    pub fn base() -> Self {
        const PASSWD: &str = "root:x:0:0:root:/:/bin/sh\n\
            nobody:x:65534:65534:nobody:/:/bin/false\n\
            sealane:x:65532:65532:sealane:/:/bin/false\n";
        const GROUP: &str = "root:x:0:\nnogroup:x:65534:\nsealane:x:65532:\n";
        Self::new().folder("tmp", 0o1777).file("etc/passwd", 0o644, PASSWD).file("etc/group", 0o644, GROUP)
    }

    pub fn folder(mut self, path: impl AsRef<str>, mode: u32) -> Self {
        self.entries.insert(rooted(path.as_ref()), Entry::Folder { mode });
        self
    }

    pub fn file(mut self, path: impl AsRef<str>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        self.entries.insert(rooted(path.as_ref()), Entry::Bytes { mode, bytes: bytes.into() });
        self
    }

    /// A file of this machine, read when the image is written.
    pub fn copy(mut self, path: impl AsRef<str>, mode: u32, source: impl Into<PathBuf>) -> Self {
        self.entries.insert(rooted(path.as_ref()), Entry::File { mode, source: source.into() });
        self
    }

    /// A symbolic link at `path`; `target` is stored as it is.
    pub fn link(mut self, path: impl AsRef<str>, target: impl Into<String>) -> Self {
        self.entries.insert(rooted(path.as_ref()), Entry::Link { target: target.into() });
        self
    }

    /// A whole folder of this machine. Files are 0755 if their owner may run them, else 0644; links stay links.
    /// `keep` sees each path of this machine; a folder it rejects is not entered.
    pub fn tree(
        mut self,
        path: impl AsRef<str>,
        source: impl AsRef<Path>,
        keep: impl Fn(&Path) -> bool,
    ) -> Result<Self> {
        let mut pending = vec![(rooted(path.as_ref()), source.as_ref().to_owned())];
        while let Some((inside, folder)) = pending.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
                let source = entry?.path();
                if !keep(&source) {
                    continue;
                }
                let name = source.file_name().and_then(|name| name.to_str());
                let name = name.with_context(|| format!("{} is not valid UTF-8", source.display()))?;
                let inside = format!("{inside}/{name}");
                let metadata = fs::symlink_metadata(&source)?;
                if metadata.is_dir() {
                    self = self.folder(&inside, 0o755);
                    pending.push((inside, source));
                } else if metadata.is_symlink() {
                    let target = fs::read_link(&source)?;
                    let target =
                        target.to_str().with_context(|| format!("target of {}", source.display()))?;
                    self = self.link(inside, target);
                } else if metadata.is_file() {
                    let mode = if metadata.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 };
                    self = self.copy(inside, mode, source);
                } else {
                    bail!("{} is neither a file, a folder nor a link", source.display());
                }
            }
        }
        Ok(self)
    }

    /// Writes the layer's tar to a temporary file in `folder`.
    pub(super) fn write(&self, folder: &Path) -> Result<Written> {
        let file = tempfile::Builder::new().prefix(".layer-").tempfile_in(folder)?;
        let hashed = Hashed {
            inner: BufWriter::new(file.reopen()?),
            hash: digest::Context::new(&digest::SHA256),
            size: 0,
        };
        let mut tar = tar::Builder::new(hashed);
        for (path, entry) in self.with_parents() {
            match entry {
                Some(entry) => entry.append(&mut tar, path).with_context(|| format!("add {path}"))?,
                None => Entry::Folder { mode: 0o755 }.append(&mut tar, path)?,
            }
        }
        let mut hashed = tar.into_inner()?;
        hashed.flush()?;
        Ok(Written { file, digest: Digest::from_hash(hashed.hash.finish().as_ref()), size: hashed.size })
    }

    /// All entries in order, and `None` for each parent folder nobody named. Sorting by path puts every parent
    /// before its children.
    fn with_parents(&self) -> BTreeMap<&str, Option<&Entry>> {
        let mut all = BTreeMap::new();
        for (path, entry) in &self.entries {
            for (end, _) in path.match_indices('/') {
                all.entry(&path[..end]).or_insert(None);
            }
            all.insert(path, Some(entry));
        }
        all
    }
}

impl Entry {
    fn append(&self, tar: &mut tar::Builder<impl Write>, path: &str) -> Result<()> {
        ensure!(
            !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | "..")),
            "{path:?} is not a plain path"
        );
        match self {
            Self::Folder { mode } => {
                let mut header = header(EntryType::Directory, 0, *mode);
                tar.append_data(&mut header, path, io::empty())?;
            }
            Self::Bytes { mode, bytes } => {
                tar.append_data(&mut file_header(bytes.len() as u64, *mode), path, bytes.as_slice())?;
            }
            Self::File { mode, source } => {
                let file = File::open(source).with_context(|| format!("open {}", source.display()))?;
                let size = file.metadata()?.len();
                let mut counted = io::Read::take(file, size);
                tar.append_data(&mut file_header(size, *mode), path, &mut counted)?;
                ensure!(counted.limit() == 0, "{} shrank while it was read", source.display());
            }
            Self::Link { target } => {
                let mut header = header(EntryType::Symlink, 0, 0o777);
                tar.append_link(&mut header, path, target)?;
            }
        }
        Ok(())
    }
}

fn rooted(path: &str) -> String {
    path.trim_matches('/').to_owned()
}

pub(super) fn file_header(size: u64, mode: u32) -> Header {
    header(EntryType::Regular, size, mode)
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Hashes and counts what passes through, so that a layer is read once.
struct Hashed<W> {
    inner: W,
    hash: digest::Context,
    size: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
