//! Small files beside the door.
//!
//! Other containers of the pod can write there too, and what they put in the place of a file must not make this
//! process read or write anything else, wait, or allocate without bound. What a file says is for its reader to doubt.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a plain file of at most `bytes_max` bytes. A link is not followed and a pipe not waited for.
///
/// # Errors
/// There is no such file, it is something else, or it is larger.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = options(OFlags::NOFOLLOW | OFlags::NONBLOCK).read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    let mut bytes = Vec::new();
    // One more than allowed tells a file that is too large, even one that grows meanwhile.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max) {
        return Ok(bytes);
    }
    Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"))
}

/// Puts `bytes` in the place of whatever is at `path`, as a whole or not at all.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    remove(fresh)?;
    let mut file: File = options(OFlags::NOFOLLOW).write(true).create_new(true).mode(0o600).open(fresh)?;
    file.write_all(bytes)?;
    std::fs::rename(fresh, path)
}

/// Removes what is at `path`, if there is something.
///
/// # Errors
/// It is there and stays.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn options(flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    // The flags of open(2) are an int there and unsigned here.
    options.custom_flags(flags.bits().cast_signed());
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_a_plain_file_within_bounds_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("plain"), b"12345").unwrap();
        symlink(at("plain"), at("link")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(read(&at("plain"), 5).unwrap(), b"12345");
        assert_eq!(read(&at("plain"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for other in ["link", "pipe", ".", "missing"] {
            assert!(read(&at(other), 5).is_err(), "{other}");
        }
        assert!(read(Path::new("/dev/zero"), 5).is_err());
    }

    #[test]
    fn links_in_the_way_are_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("elsewhere"), b"untouched").unwrap();
        for name in ["file", "file.new"] {
            symlink(at("elsewhere"), at(name)).unwrap();
        }
        replace(&at("file"), b"fresh").unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"fresh");
        assert_eq!(std::fs::read(at("elsewhere")).unwrap(), b"untouched");
    }
}
