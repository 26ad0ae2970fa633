//! `Noise_XX_25519_AESGCM_SHA256` and `Noise_NNpsk0_25519_AESGCM_SHA256` (revision 34), written out: a second
//! implementation, which may say anything at any moment.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::digest::{SHA256, digest};

use super::kdf::{three, two};

/// The other side sent what does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// Handshake state of one side. Keys are taken as bytes: they are those of tests.
#[derive(Clone)]
pub(super) struct Noise {
    hash: [u8; 32],
    chaining: [u8; 32],
    key: Option<[u8; 32]>,
    count: u64,
    own_static: [u8; 32],
    own_ephemeral: [u8; 32],
    remote_static: [u8; 32],
    remote_ephemeral: [u8; 32],
}

pub(super) struct Finished {
    pub(super) hash: [u8; 32],
    pub(super) split: ([u8; 32], [u8; 32]),
    pub(super) remote_static: [u8; 32],
}

impl Noise {
    pub(super) fn new(prologue: &[u8], own_static: [u8; 32], own_ephemeral: [u8; 32]) -> Self {
        let mut name = [0; 32];
        name[..28].copy_from_slice(b"Noise_XX_25519_AESGCM_SHA256");
        Self::named(name, prologue, own_static, own_ephemeral)
    }

    /// NNpsk0, with the token `psk` done.
    pub(super) fn resumed(prologue: &[u8], ticket: &[u8; 32], own_ephemeral: [u8; 32]) -> Self {
        let mut noise = Self::named(*b"Noise_NNpsk0_25519_AESGCM_SHA256", prologue, [0; 32], own_ephemeral);
        let (chaining, hashed, key) = three(&noise.chaining, ticket);
        noise.mix_hash(&hashed);
        (noise.chaining, noise.key, noise.count) = (chaining, Some(key), 0);
        noise
    }

    fn named(name: [u8; 32], prologue: &[u8], own_static: [u8; 32], own_ephemeral: [u8; 32]) -> Self {
        let mut noise = Self {
            hash: name,
            chaining: name,
            key: None,
            count: 0,
            own_static,
            own_ephemeral,
            remote_static: [0; 32],
            remote_ephemeral: [0; 32],
        };
        noise.mix_hash(prologue);
        noise
    }

    /// Initiator, message 1: `e`.
    pub(super) fn write_1(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = self.put_ephemeral();
        message.extend(self.encrypt(payload));
        message
    }

    pub(super) fn read_1(&mut self, message: &[u8]) -> Result<Vec<u8>, Broken> {
        let (ephemeral, payload) = message.split_first_chunk().ok_or(Broken)?;
        self.take_ephemeral(*ephemeral);
        self.decrypt(payload)
    }

    /// Initiator of NNpsk0, message 1: `e`.
    pub(super) fn present(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = self.put_ephemeral();
        self.mix_key(&public(&self.own_ephemeral));
        message.extend(self.encrypt(payload));
        message
    }

    /// Initiator of NNpsk0, message 2: `e, ee`.
    pub(super) fn read_answer(&mut self, message: &[u8]) -> Result<Vec<u8>, Broken> {
        let (ephemeral, payload) = message.split_first_chunk().ok_or(Broken)?;
        self.take_ephemeral(*ephemeral);
        self.mix_key(ephemeral);
        self.mix_dh(self.own_ephemeral, self.remote_ephemeral);
        self.decrypt(payload)
    }

    /// Responder, message 2: `e, ee, s, es`.
    pub(super) fn write_2(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = self.put_ephemeral();
        self.mix_dh(self.own_ephemeral, self.remote_ephemeral);
        message.extend(self.encrypt(&public(&self.own_static)));
        self.mix_dh(self.own_static, self.remote_ephemeral);
        message.extend(self.encrypt(payload));
        message
    }

    pub(super) fn read_2(&mut self, message: &[u8]) -> Result<Vec<u8>, Broken> {
        let (ephemeral, rest) = message.split_first_chunk().ok_or(Broken)?;
        let (sealed, payload) = rest.split_first_chunk::<48>().ok_or(Broken)?;
        self.take_ephemeral(*ephemeral);
        self.mix_dh(self.own_ephemeral, self.remote_ephemeral);
        self.remote_static = self.decrypt(sealed)?.try_into().map_err(|_| Broken)?;
        self.mix_dh(self.own_ephemeral, self.remote_static);
        self.decrypt(payload)
    }

    /// Initiator, message 3: `s, se`.
    pub(super) fn write_3(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = self.encrypt(&public(&self.own_static));
        self.mix_dh(self.own_static, self.remote_ephemeral);
        message.extend(self.encrypt(payload));
        message
    }

    pub(super) fn read_3(&mut self, message: &[u8]) -> Result<Vec<u8>, Broken> {
        let (sealed, payload) = message.split_first_chunk::<48>().ok_or(Broken)?;
        self.remote_static = self.decrypt(sealed)?.try_into().map_err(|_| Broken)?;
        self.mix_dh(self.own_ephemeral, self.remote_static);
        self.decrypt(payload)
    }

    pub(super) fn finish(&self) -> Finished {
        Finished { hash: self.hash, split: two(&self.chaining, &[]), remote_static: self.remote_static }
    }

    fn put_ephemeral(&mut self) -> Vec<u8> {
        let ephemeral = public(&self.own_ephemeral);
        self.mix_hash(&ephemeral);
        ephemeral.to_vec()
    }

    fn take_ephemeral(&mut self, ephemeral: [u8; 32]) {
        self.remote_ephemeral = ephemeral;
        self.mix_hash(&ephemeral);
    }

    fn mix_hash(&mut self, data: &[u8]) {
        let joined = [&self.hash[..], data].concat();
        self.hash = digest(&SHA256, &joined).as_ref().try_into().unwrap();
    }

    /// A key of small order gives no shared secret: zeros stand for it, which nobody honest arrives at.
    fn mix_dh(&mut self, private: [u8; 32], public: [u8; 32]) {
        let private = PrivateKey::from_private_key(&X25519, &private).unwrap();
        let public = UnparsedPublicKey::new(&X25519, public);
        let shared = agree(&private, public, (), |shared| <[u8; 32]>::try_from(shared).map_err(|_| ()));
        self.mix_key(&shared.unwrap_or_default());
    }

    fn mix_key(&mut self, input: &[u8]) {
        let (chaining, key) = two(&self.chaining, input);
        (self.chaining, self.key, self.count) = (chaining, Some(key), 0);
    }

    fn encrypt(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let mut bytes = plaintext.to_vec();
        if let Some(key) = self.key {
            let nonce = self.nonce();
            gcm(&key).seal_in_place_append_tag(nonce, Aad::from(self.hash), &mut bytes).unwrap();
        }
        self.mix_hash(&bytes);
        bytes
    }

    fn decrypt(&mut self, sealed: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut bytes = sealed.to_vec();
        if let Some(key) = self.key {
            let nonce = self.nonce();
            let opened = gcm(&key).open_in_place(nonce, Aad::from(self.hash), &mut bytes);
            let length = opened.map_err(|_| Broken)?.len();
            bytes.truncate(length);
        }
        self.mix_hash(sealed);
        Ok(bytes)
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn gcm(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap())
}

/// The X25519 public key of `private`.
pub(super) fn public(private: &[u8; 32]) -> [u8; 32] {
    let key = PrivateKey::from_private_key(&X25519, private).unwrap();
    key.compute_public_key().unwrap().as_ref().try_into().unwrap()
}
