//! Names of forwards that are too long for the path of a unix socket, which takes the place of a port on the host's network.

use sealane_operator_api::Forward;
use sealane_policy::digest_of;

/// Longest name that the path `/run/sealane/forward/NAME.sock` holds, and with the widest ordinal behind it: a socket's path
/// has 107 bytes (`sidecar/src/session/forward/socket_path.rs`).
const NAME_BYTES_MAX: usize = 81;
const NAME_BYTES_WITH_ORDINAL_MAX: usize = 70;

/// What takes the place of the name.
pub(super) fn warning(name: &str, forward: &Forward) -> Option<String> {
    let max = if forward.per_replica { NAME_BYTES_WITH_ORDINAL_MAX } else { NAME_BYTES_MAX };
    if name.len() <= max {
        return None;
    }
    let digest: String = digest_of(name.as_bytes()).to_string().chars().take(32).collect();
    let cut = format!("{}~{digest}", name.get(..24)?);
    let ordinal = if forward.per_replica { "_ORDINAL" } else { "" };
    let server = if name.len() > NAME_BYTES_MAX { &cut } else { name };
    Some(format!(
        "metadata.name: too long for the path of a socket; on the host's network clients dial /run/sealane/forward/{cut}{ordinal}.sock and the server listens on /run/sealane/target/{server}.sock"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(length: usize, per_replica: bool) -> Option<String> {
        warning(&"a".repeat(length), &Forward { listen: 18_001, target: 8_001, per_replica })
    }

    /// The same one as in the sidecar's test.
    const CUT: &str = "aaaaaaaaaaaaaaaaaaaaaaaa~2816597888e4a0d3a36b82b83316ab32";

    #[test]
    fn a_name_that_is_too_long_is_told_with_the_path_that_is_used() {
        assert_eq!((told(81, false), told(70, true)), (None, None));
        let words = told(100, false).unwrap();
        assert!(words.contains(&format!("/run/sealane/forward/{CUT}.sock")), "{words}");
        assert!(words.contains(&format!("/run/sealane/target/{CUT}.sock")), "{words}");
        assert!(told(100, true).unwrap().contains(&format!("{CUT}_ORDINAL.sock")));
        // Only the side with ordinals is too long.
        let between = told(75, true).unwrap();
        assert!(between.contains(&format!("/run/sealane/target/{}.sock", "a".repeat(75))), "{between}");
    }
}
