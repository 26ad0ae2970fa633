//! One direction of a link: the key schedule and the records of `PROTOCOL.md` §4 and §5, written out.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::digest::{SHA256, digest};
use sealane_protocol::handshake::Suite;
use sealane_types::Cipher;

use super::kdf::{expand, hmac};
use super::noise::Finished;

pub const DATA: u8 = 3;
pub const KEY_UPDATE: u8 = 4;
pub const BULK: u8 = 6;

/// What every derivation of one handshake has in common.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) suite: Suite,
    pub(super) hash: [u8; 32],
}

impl Scope {
    fn derive(&self, secret: &[u8; 32], label: &str, context: &[u8]) -> [u8; 32] {
        let classical: &[u8] = if self.suite.post_quantum() { b"" } else { b"classical " };
        let suite = self.suite.code().to_be_bytes();
        let info = [b"sealane/1 ", classical, label.as_bytes(), &[0], &suite, &self.hash, context].concat();
        expand(secret, &info)
    }
}

/// The two directions, the binding key, and what tickets are made from.
pub(super) struct Keys {
    pub(super) initiator: Direction,
    pub(super) responder: Direction,
    pub(super) binding: [u8; 32],
    pub(super) tickets: Tickets,
}

/// Makes the secrets of tickets.
#[derive(Clone, Copy)]
pub struct Tickets {
    secret: [u8; 32],
    scope: Scope,
}

impl Tickets {
    /// The secret of one, for which these evidence messages were shown.
    pub fn secret(&self, id: &[u8; 16], initiator: &[u8], responder: &[u8]) -> [u8; 32] {
        let [first, second] = [initiator, responder].map(|message| digest(&SHA256, message));
        self.scope.derive(&self.secret, "ticket", &[&id[..], first.as_ref(), second.as_ref()].concat())
    }
}

impl Keys {
    pub(super) fn new(finished: &Finished, kem: Option<[u8; 32]>, suite: Suite) -> Self {
        let scope = Scope { suite, hash: finished.hash };
        let (first, second) = finished.split;
        let material = [&first[..], &second, kem.as_ref().map_or(&[], |kem| &kem[..])].concat();
        let root = hmac(&finished.hash, &[&material]);
        let direction = |label: &str| {
            let secret = scope.derive(&root, label, &[]);
            Direction::new(secret, scope.derive(&secret, "link", &[0; 4 + 64]), scope)
        };
        Self {
            initiator: direction("initiator"),
            responder: direction("responder"),
            binding: scope.derive(&root, "binding", &[]),
            tickets: Tickets { secret: scope.derive(&root, "resume", &[]), scope },
        }
    }
}

/// Seals or opens records of one direction.
#[derive(Clone)]
pub struct Direction {
    /// What every secret of the direction is from.
    whole: [u8; 32],
    secret: [u8; 32],
    scope: Scope,
    /// Of the next record.
    pub sequence: u64,
}

impl Direction {
    const fn new(whole: [u8; 32], secret: [u8; 32], scope: Scope) -> Self {
        Self { whole, secret, scope, sequence: 0 }
    }

    /// The same direction over datagrams: its sequence counts packets. Beside it, what hides their headers.
    pub(super) fn over_datagrams(&self) -> (Self, [u8; 32]) {
        let secret = self.scope.derive(&self.whole, "datagrams", &[]);
        (Self::new(self.whole, secret, self.scope), self.scope.derive(&secret, "header", &[]))
    }

    pub(super) const fn cipher(&self) -> Cipher {
        self.scope.suite.cipher
    }

    /// A record of any kind with any plaintext.
    pub fn seal(&mut self, kind: u8, plaintext: &[u8]) -> Vec<u8> {
        let mut body = plaintext.to_vec();
        let header = header(kind, plaintext.len() + 16);
        self.key().seal_in_place_append_tag(self.nonce(), Aad::from(header), &mut body).unwrap();
        self.sequence += 1;
        [&header[..], &body].concat()
    }

    /// A key update, and the next phase from here on.
    pub fn update(&mut self) -> Vec<u8> {
        let record = self.seal(KEY_UPDATE, &[]);
        self.advance();
        record
    }

    /// The plaintexts of all data records in `bytes`, which are whole; `None` when one does not open.
    pub fn open_all(&mut self, mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut plaintexts = Vec::new();
        while let Some((header, rest)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
            let (body, rest) = rest.split_at_checked(length)?;
            let mut body = body.to_vec();
            let opened = self.key().open_in_place(self.nonce(), Aad::from(*header), &mut body).ok()?;
            self.sequence += 1;
            match header[0] {
                DATA => plaintexts.push(opened.to_vec()),
                KEY_UPDATE => self.advance(),
                _ => return None,
            }
            bytes = rest;
        }
        bytes.is_empty().then_some(plaintexts)
    }

    pub(super) fn advance(&mut self) {
        self.secret = self.scope.derive(&self.secret, "update", &[]);
    }

    pub(super) fn key(&self) -> LessSafeKey {
        let algorithm: &Algorithm = match self.scope.suite.cipher {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aegis256X4 => panic!("the library of the rogue has no AEGIS"),
        };
        let key = self.scope.derive(&self.secret, "key", &[]);
        LessSafeKey::new(UnboundKey::new(algorithm, &key[..algorithm.key_len()]).unwrap())
    }

    pub(super) fn nonce(&self) -> Nonce {
        let mut nonce: [u8; 12] = self.scope.derive(&self.secret, "nonce", &[])[..12].try_into().unwrap();
        nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()).for_each(|(byte, count)| *byte ^= count);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// The header of a message with a body of `length` bytes.
pub fn header(kind: u8, length: usize) -> [u8; 4] {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    [kind, high, middle, low]
}
