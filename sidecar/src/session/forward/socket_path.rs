//! Paths of forwards' unix sockets: named after the session, and never longer than a socket's path may be.

use std::path::{Path, PathBuf};

use sealane_policy::digest_of;
use sealane_types::SessionName;

/// `sun_path` of unix(7) holds 108 bytes, of which the last is zero.
const PATH_BYTES_MAX: usize = 107;
/// What remains of a name that is too long, for people.
const KEPT_BYTES: usize = 24;
/// 128 bits of SHA-256 of the whole name.
const DIGEST_DIGITS: usize = 32;
/// The widest that follows the name of a session.
const WIDEST_ORDINAL: &str = "_4294967295";

/// Where in `directory` the socket of a session is, of the replica of an ordinal if it is one of several.
///
/// A name that is too long is cut and followed by a digest of all of it, as
/// `operator/src/webhook/validate/forward/socket.rs` tells at admission. All ordinals of a session are named alike: how long
/// the path of one may get decides. No name holds `_` or `~`, so that no session has the socket of another.
pub(super) fn socket_path(directory: &Path, session: &SessionName, ordinal: Option<u32>) -> PathBuf {
    let name = session.as_str();
    let suffix = ordinal.map(|ordinal| format!("_{ordinal}")).unwrap_or_default();
    let widest = if ordinal.is_some() { WIDEST_ORDINAL } else { "" };
    let plain = directory.join(format!("{name}{widest}.sock"));
    if plain.as_os_str().len() <= PATH_BYTES_MAX {
        return directory.join(format!("{name}{suffix}.sock"));
    }
    // Names are ASCII.
    let kept = name.get(..KEPT_BYTES).unwrap_or(name);
    let digest: String = digest_of(name.as_bytes()).to_string().chars().take(DIGEST_DIGITS).collect();
    directory.join(format!("{kept}~{digest}{suffix}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, ordinal: Option<u32>) -> String {
        let session = SessionName::new(name).unwrap();
        socket_path(Path::new("/run/sealane/forward"), &session, ordinal).to_string_lossy().into_owned()
    }

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(path("inference", None), "/run/sealane/forward/inference.sock");
        assert_eq!(path("inference", Some(3)), "/run/sealane/forward/inference_3.sock");
        let longest = "a".repeat(81);
        assert_eq!(path(&longest, None), format!("/run/sealane/forward/{longest}.sock"));
        assert_eq!(path(&longest, None).len(), PATH_BYTES_MAX);
    }

    #[test]
    fn no_path_is_longer_than_a_sockets_may_be() {
        for length in 1..=253 {
            let name = "a".repeat(length);
            for ordinal in [None, Some(0), Some(u32::MAX)] {
                assert!(path(&name, ordinal).len() <= PATH_BYTES_MAX, "{length} {ordinal:?}");
            }
        }
    }

    #[test]
    fn a_name_that_does_not_fit_is_cut_and_told_by_its_digest() {
        let long = "a".repeat(100);
        let cut = "aaaaaaaaaaaaaaaaaaaaaaaa~2816597888e4a0d3a36b82b83316ab32";
        assert_eq!(path(&long, None), format!("/run/sealane/forward/{cut}.sock"));
        assert_eq!(path(&long, Some(7)), format!("/run/sealane/forward/{cut}_7.sock"));
        // Those that differ at their end alone.
        let other = format!("{}b", "a".repeat(99));
        assert_ne!(path(&long, None), path(&other, None));
        // One rule for all ordinals of a session, whatever the first ones would permit.
        let between = "a".repeat(75);
        assert!(!path(&between, None).contains('~') && path(&between, Some(0)).contains('~'));
    }

    #[test]
    fn every_such_path_can_be_listened_on() {
        // Not where the environment says: that may be a long way.
        let place = tempfile::tempdir_in("/tmp").unwrap();
        for length in [1, 60, 100, 253] {
            let session = SessionName::new("a".repeat(length)).unwrap();
            let path = socket_path(place.path(), &session, Some(u32::MAX));
            std::os::unix::net::UnixListener::bind(&path).unwrap();
        }
    }
}
