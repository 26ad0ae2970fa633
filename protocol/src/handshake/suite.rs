//! Cipher suites: a key exchange and a record cipher.

use sealane_types::Cipher;

/// How the keys come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyExchange {
    /// X25519 and ML-KEM-768: safe as long as either is.
    Hybrid,
    /// X25519 alone: a recording made today can be read by a later quantum computer.
    Classical,
}

/// A key exchange and a record cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Suite {
    pub exchange: KeyExchange,
    pub cipher: Cipher,
}

impl Suite {
    #[must_use]
    pub const fn new(exchange: KeyExchange, cipher: Cipher) -> Self {
        Self { exchange, cipher }
    }

    /// Hybrid suites of `ciphers`, then, only if asked for, their classical twins.
    #[must_use]
    pub fn offer(ciphers: &[Cipher], classical: bool) -> Vec<Self> {
        let exchanges: &[_] =
            if classical { &[KeyExchange::Hybrid, KeyExchange::Classical] } else { &[KeyExchange::Hybrid] };
        exchanges
            .iter()
            .flat_map(|exchange| ciphers.iter().map(|cipher| Self::new(*exchange, *cipher)))
            .collect()
    }

    #[must_use]
    pub const fn post_quantum(self) -> bool {
        matches!(self.exchange, KeyExchange::Hybrid)
    }

    /// The value on the wire: key exchange in the high byte, cipher in the low one.
    #[must_use]
    pub const fn code(self) -> u16 {
        let exchange = match self.exchange {
            KeyExchange::Classical => 0x0000,
            KeyExchange::Hybrid => 0x0100,
        };
        let cipher = match self.cipher {
            Cipher::Aes256Gcm => 1,
            Cipher::ChaCha20Poly1305 => 2,
            Cipher::Aes128Gcm => 3,
            Cipher::Aegis256X4 => 4,
        };
        exchange | cipher
    }

    /// The suite with wire value `code`, if this build knows it.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::offer(Cipher::ALL, true).into_iter().find(|suite| suite.code() == code)
    }
}

/// What the policy demands of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    pub post_quantum: bool,
    /// Ciphers that the policy lists; no other is ever used.
    pub ciphers: Vec<Cipher>,
}

impl Floor {
    #[must_use]
    pub fn permits(&self, suite: Suite) -> bool {
        (suite.post_quantum() || !self.post_quantum) && self.ciphers.contains(&suite.cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_differ() {
        let all = Suite::offer(Cipher::ALL, true);
        assert_eq!(all.len(), 8);
        for suite in &all {
            assert_eq!(Suite::from_code(suite.code()), Some(*suite));
        }
        assert_eq!(Suite::from_code(0), None);
        assert_eq!(Suite::from_code(0x0204), None);
    }

    #[test]
    fn a_floor_excludes_classical_exchange_and_unlisted_ciphers() {
        let floor = Floor { post_quantum: true, ciphers: vec![Cipher::Aes256Gcm] };
        let permitted: Vec<_> =
            Suite::offer(Cipher::ALL, true).into_iter().filter(|suite| floor.permits(*suite)).collect();
        assert_eq!(permitted, [Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm)]);
    }
}
