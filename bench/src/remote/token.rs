//! What shows each side that the other belongs to the run: both know its key, and neither says it.

use std::fmt;

use anyhow::{Result, anyhow};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, rand};

const LABEL: &[u8] = b"sealane.dev/benchmark-server/1";
const NONCE_BYTES: usize = 16;

/// Who proves something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prover {
    Client,
    Server,
}

/// Follows from a run's key, and is never sent or printed.
#[derive(Clone)]
pub(crate) struct Token(hmac::Key);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl Token {
    /// Of the key as text, as the environment has it.
    pub(crate) fn of(key: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.trim().as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, LABEL).as_ref()))
    }

    /// What `prover` says about `purpose`, to whoever drew the one nonce, having drawn the other.
    pub(super) fn proof(&self, prover: Prover, nonces: [&str; 2], purpose: &str) -> String {
        let side = match prover {
            Prover::Client => "client",
            Prover::Server => "server",
        };
        let mut context = hmac::Context::with_key(&self.0);
        for part in [side, nonces[0], nonces[1], purpose] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        hex::encode(context.sign())
    }

    /// Whether that is what was said, in constant time.
    pub(super) fn proves(&self, said: &str, prover: Prover, nonces: [&str; 2], purpose: &str) -> bool {
        let proof = self.proof(prover, nonces, purpose);
        verify_slices_are_equal(proof.as_bytes(), said.as_bytes()).is_ok()
    }
}

/// A number that is used once.
pub(super) fn nonce() -> Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    rand::fill(&mut bytes).map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_key_side_pair_of_nonces_and_purpose() {
        let (token, nonces) = (Token::of("4a4b"), ["1", "2"]);
        let proof = token.proof(Prover::Client, nonces, "stop");
        assert!(Token::of("4a4b\n").proves(&proof, Prover::Client, nonces, "stop"));
        assert!(!Token::of("4a4c").proves(&proof, Prover::Client, nonces, "stop"));
        assert!(!token.proves(&proof, Prover::Server, nonces, "stop"));
        assert!(!token.proves(&proof, Prover::Client, ["2", "1"], "stop"));
        assert!(!token.proves(&proof, Prover::Client, ["12", ""], "stop"));
        assert!(!token.proves(&proof, Prover::Client, nonces, "data"));
        assert!(!token.proves("", Prover::Client, nonces, "stop"));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert!(!format!("{token:?}").contains("Key"));
    }
}
