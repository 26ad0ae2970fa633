//! What shows that whoever asks belongs to the run.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

const LABEL: &[u8] = b"sealane.dev/benchmark-server/1";

/// Follows from a run's key, and says nothing about it. Never printed.
#[derive(Clone)]
pub(crate) struct Token(Zeroizing<String>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl Token {
    /// Of the key as text, as the environment has it.
    pub(crate) fn of(key: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.trim().as_bytes());
        let tag = hmac::sign(&key, LABEL);
        Self(Zeroizing::new(tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// In constant time.
    pub(super) fn is(&self, text: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), text.as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_one_key_and_is_not_printed() {
        let token = Token::of("4a4b");
        assert!(token.is(Token::of("4a4b\n").text()));
        assert!(!token.is(Token::of("4a4c").text()) && !token.is("") && !token.is("4a4b"));
        assert!(!format!("{token:?}").contains(token.text()));
    }
}
