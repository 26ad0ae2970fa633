//! The file of a pinned key: an Ed25519 key in PKCS#8 PEM, as owners' keys are.
//!
//! Whoever reads it can pass for the Peer that it stands for, so it is neither read nor believed where others could have
//! read or replaced it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sealane_policy::SigningKey;
use zeroize::Zeroizing;

/// What a new key file may be used for by its owner, and by nobody else.
const MODE: u32 = 0o600;
/// A key in PEM has 119 bytes; what is longer is no key.
const BYTES_MAX: u64 = 1024;
/// Bits of a mode: read and write for everybody else, for others than the group, write for everybody else.
const GROUP_OR_OTHERS: u32 = 0o077;
const GROUP_WRITES_OR_OTHERS: u32 = 0o027;
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;

/// Why a key file is of no use, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("the key file {path} cannot be read; `sealane-sidecar keygen --out FILE` makes one")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the key file {path} is not a plain file")]
    NotPlain { path: PathBuf },
    #[error(
        "the key file {path} belongs to user {owner}, who could replace it, while this process runs as user {user}; run it as the owner, or change the owner: chown {user} {path}"
    )]
    Owner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "the key file {path} is open to others (mode {mode:04o}), and whoever reads it can pass for this Peer: chmod 600 {path}, and make a new key if somebody may have read this one"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the key file {path} holds no Ed25519 key in PKCS#8 PEM, as `sealane-sidecar keygen` writes it")]
    Malformed { path: PathBuf },
    #[error("{path} exists already; a key is never overwritten, choose another --out")]
    Exists { path: PathBuf },
    #[error("the key file {path} cannot be written")]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no key can be made: the system has no random numbers")]
    NoRandomness,
}

/// Where a pinned key lies, and who looks after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    path: PathBuf,
    mounted: bool,
}

impl KeyFile {
    /// In a directory that others may reach too: only its owner may read it, or a group that root gave it to.
    #[must_use]
    pub const fn kept(path: PathBuf) -> Self {
        Self { path, mounted: false }
    }

    /// From a Secret that is mounted for this container alone. The kubelet owns such files, and pods that run as another
    /// user could not read them if they were for their owner only.
    #[must_use]
    pub const fn mounted(path: PathBuf) -> Self {
        Self { path, mounted: true }
    }

    /// Reads the key.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(&self) -> Result<SigningKey, KeyFileError> {
        let path = || self.path.clone();
        let unreadable = |source| KeyFileError::Unreadable { path: path(), source };
        // A pipe is not waited for. Links are followed: the kubelet mounts Secrets as such.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(KeyFileError::NotPlain { path: path() });
        }
        self.check(metadata.uid(), metadata.mode() & 0o7777, rustix::process::geteuid().as_raw())?;
        let malformed = || KeyFileError::Malformed { path: path() };
        let text = text(file).map_err(unreadable)?.ok_or_else(malformed)?;
        SigningKey::from_pem(&text).map_err(|_| malformed())
    }

    /// Whether nobody but `user` and root can have read or written the file.
    fn check(&self, owner: u32, mode: u32, user: u32) -> Result<(), KeyFileError> {
        if owner != user && owner != 0 {
            return Err(KeyFileError::Owner { path: self.path.clone(), owner, user });
        }
        let forbidden = match (self.mounted, owner == user) {
            (true, _) => GROUP_OR_OTHERS_WRITE,
            (false, true) => GROUP_OR_OTHERS,
            (false, false) => GROUP_WRITES_OR_OTHERS,
        };
        if mode & forbidden != 0 {
            Err(KeyFileError::Exposed { path: self.path.clone(), mode })
        } else {
            Ok(())
        }
    }
}

/// None: it is too long, or no text.
fn text(file: File) -> io::Result<Option<Zeroizing<String>>> {
    // Whole from the start: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES_MAX as usize + 1));
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Ok(None);
    }
    Ok(std::str::from_utf8(&bytes).ok().map(|text| Zeroizing::new(text.to_owned())))
}

/// Makes a key and writes it to `path`, for its owner only.
///
/// # Errors
/// [`KeyFileError`]; a file that is there stays as it is.
pub(crate) fn create(path: &Path) -> Result<SigningKey, KeyFileError> {
    let key = SigningKey::generate().map_err(|_| KeyFileError::NoRandomness)?;
    let pem = key.to_pem().map_err(|_| KeyFileError::NoRandomness)?;
    let created = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    let mut file = created.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.to_owned() },
        _ => KeyFileError::Unwritable { path: path.to_owned(), source },
    })?;
    let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|source| KeyFileError::Unwritable { path: path.to_owned(), source })?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_key_that_was_made_is_read_back_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        let made = create(&path).unwrap().public_key();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, MODE);
        assert!(matches!(create(&path), Err(KeyFileError::Exists { .. })));
        assert_eq!(KeyFile::kept(path).read().unwrap().public_key(), made);
        let nowhere = directory.path().join("none/key.pem");
        assert!(matches!(create(&nowhere), Err(KeyFileError::Unwritable { .. })));
    }

    #[test]
    fn a_key_that_others_can_reach_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        create(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o777] {
            chmod(&path, mode);
            let refused = KeyFile::kept(path.clone()).read().unwrap_err();
            assert!(matches!(refused, KeyFileError::Exposed { .. }), "{mode:o}: {refused}");
            assert!(refused.to_string().contains("chmod 600"), "{refused}");
        }
        chmod(&path, 0o400);
        assert!(KeyFile::kept(path).read().is_ok());
    }

    #[test]
    fn owners_and_modes_are_those_of_whoever_looks_after_the_file() {
        let kept = KeyFile::kept("key.pem".into());
        let mounted = KeyFile::mounted("key.pem".into());
        assert!(matches!(kept.check(7, 0o600, 8), Err(KeyFileError::Owner { owner: 7, user: 8, .. })));
        assert!(matches!(mounted.check(7, 0o400, 8), Err(KeyFileError::Owner { .. })));
        // Root gave it to a group of this process (fsGroup), and to nobody else.
        assert!(kept.check(0, 0o440, 8).is_ok());
        assert!(kept.check(0, 0o444, 8).is_err() && kept.check(0, 0o460, 8).is_err());
        // A mounted Secret as the kubelet leaves it, and one that others could change.
        assert!(mounted.check(0, 0o444, 8).is_ok() && mounted.check(0, 0o644, 0).is_ok());
        assert!(mounted.check(0, 0o664, 8).is_err() && mounted.check(0, 0o646, 8).is_err());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        create(&at("key.pem")).unwrap();
        symlink(at("key.pem"), at("link")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::write(at("empty"), "").unwrap();
        let pem = std::fs::read_to_string(at("key.pem")).unwrap();
        std::fs::write(at("long"), format!("{pem}{}", " ".repeat(2000))).unwrap();
        std::fs::write(at("binary"), [0xff; 100]).unwrap();
        for name in ["empty", "long", "binary"] {
            chmod(&at(name), 0o600);
            let refused = KeyFile::kept(at(name)).read().unwrap_err();
            assert!(matches!(refused, KeyFileError::Malformed { .. }), "{name}: {refused}");
        }
        for name in ["pipe", "."] {
            let refused = KeyFile::kept(at(name)).read().unwrap_err();
            assert!(matches!(refused, KeyFileError::NotPlain { .. }), "{name}: {refused}");
        }
        assert!(matches!(KeyFile::kept(at("missing")).read(), Err(KeyFileError::Unreadable { .. })));
        assert!(KeyFile::kept(at("link")).read().is_ok(), "the kubelet mounts Secrets as links");
    }
}
