//! The key by which the data port ends connections that an earlier process left behind, in a directory that outlives it.

use std::io::{self, ErrorKind};
use std::path::Path;

use sealane_protocol::datagram::ResetKey;
use sealane_protocol::keys::{Random, RandomFailed, Secret};
use zeroize::Zeroizing;

use crate::volume;

const NAME: &str = "reset.key";
const KEY_BYTES: usize = 32;

/// The key in `directory` for tokens of `port`, which is made if there is none that can be used. Where the directory cannot
/// be written, the process after this one cannot end the connections of this one: their remotes wait for the idle timeout.
///
/// # Errors
/// There is no randomness.
pub(crate) fn of(directory: &Path, port: u16, random: &mut dyn Random) -> Result<ResetKey, RandomFailed> {
    let path = directory.join(NAME);
    let mut bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(file = %path.display(), %error, "the key that ends old connections is made anew");
            }
            let mut fresh = Zeroizing::new([0; KEY_BYTES]);
            random.fill(fresh.as_mut_slice())?;
            if let Err(error) = volume::replace(&path, fresh.as_slice()) {
                let file = path.display();
                tracing::warn!(%file, %error, "connections over UDP will not be ended after a restart");
            }
            fresh
        }
    };
    Ok(ResetKey::new(&Secret::take(&mut bytes), port))
}

fn read(path: &Path) -> io::Result<Zeroizing<[u8; KEY_BYTES]>> {
    let bytes = Zeroizing::new(volume::read(path, KEY_BYTES as u64)?);
    let key = <[u8; KEY_BYTES]>::try_from(bytes.as_slice());
    key.map(Zeroizing::new).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no key"))
}

#[cfg(test)]
mod tests {
    use sealane_protocol::Moment;
    use sealane_protocol::datagram::{Greeter, Greeting};

    use super::*;
    use crate::context::SystemRandom;

    /// What a process with this directory answers to a packet that is for no connection of its own.
    fn answer(directory: &Path) -> Vec<u8> {
        let greeter = Greeter::new(&mut SystemRandom).unwrap();
        let greeter = greeter.with_resets(of(directory, 14_710, &mut SystemRandom).unwrap());
        let packet = [&[0x40][..], &[7; 8], &[0; 40]].concat();
        let mut space = [0; 64];
        let source = "10.0.0.1:14710".parse().unwrap();
        match greeter.greet(Moment::from_micros(0), source, &packet, &mut space) {
            Greeting::Answer(length) => space[..length].to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_process_answers_for_connections_of_the_one_before_it() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let before = answer(own.path());
        assert_eq!(answer(own.path()), before);
        assert_ne!(answer(other.path()), before);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(own.path().join(NAME)).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_key_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        for odd in [&b""[..], &[1; KEY_BYTES - 1], &[1; KEY_BYTES + 1]] {
            std::fs::write(directory.path().join(NAME), odd).unwrap();
            assert_eq!(answer(directory.path()), answer(directory.path()));
        }
        assert_ne!(answer(Path::new("/nowhere")), answer(Path::new("/nowhere")), "and each is its own");
    }
}
