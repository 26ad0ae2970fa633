//! What is asked of an address, and what whoever receives there repeats.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use crate::keys::{Random, RandomFailed, Secret};

pub(super) type Token = [u8; 8];

/// Makes tokens that nobody can tell beforehand, the remote that knows all earlier ones included: the engine has no
/// source of random numbers once it has begun.
pub(super) struct Tokens {
    /// And not the key made from it, which is far larger and hardly ever asked for.
    secret: Secret<32>,
    next: u64,
}

impl Tokens {
    pub(super) fn new(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        Ok(Self { secret: Secret::random(random)?, next: 0 })
    }

    pub(super) fn draw(&mut self) -> Token {
        let key = Key::new(HMAC_SHA256, self.secret.expose());
        let tag = sign(&key, &self.next.to_be_bytes());
        self.next = self.next.saturating_add(1);
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    struct Same(u8);

    impl Random for Same {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    #[test]
    fn none_comes_twice() {
        let mut tokens = [1, 2].map(|seed| Tokens::new(&mut Same(seed)).unwrap());
        let drawn: BTreeSet<_> =
            tokens.iter_mut().flat_map(|tokens| [(); 50].map(|()| tokens.draw())).collect();
        assert_eq!(drawn.len(), 100);
    }
}
