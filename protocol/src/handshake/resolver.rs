//! snow's primitives from aws-lc-rs: twice as fast as snow's own, and run-time CPU detection without feature
//! flags. Only what `Noise_XX_25519_AESGCM_SHA256` needs is there.

use std::sync::Mutex;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::digest;
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

use crate::keys::Secret;
use crate::limits::TAG_BYTES;

/// Hands snow the one random value that XX draws: the ephemeral private key.
pub(super) struct Resolver {
    ephemeral: Mutex<Option<Secret<32>>>,
}

impl Resolver {
    pub(super) const fn new(ephemeral: Secret<32>) -> Self {
        Self { ephemeral: Mutex::new(Some(ephemeral)) }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        let ephemeral = self.ephemeral.lock().ok()?.take()?;
        Some(Box::new(OneDraw(Some(ephemeral))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(X25519Dh::new()) as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::new(Sha256(fresh())) as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::AESGCM).then(|| Box::new(AesGcm(None)) as _)
    }
}

/// A generator that yields exactly the bytes it was given, once.
struct OneDraw(Option<Secret<32>>);

impl Random for OneDraw {
    fn try_fill_bytes(&mut self, destination: &mut [u8]) -> Result<(), Error> {
        let drawn = self.0.take().ok_or(Error::Rng)?;
        if destination.len() != drawn.expose().len() {
            return Err(Error::Rng);
        }
        destination.copy_from_slice(drawn.expose());
        Ok(())
    }
}

struct X25519Dh {
    private: Secret<32>,
    public: [u8; 32],
    key: Option<PrivateKey>,
}

impl X25519Dh {
    fn new() -> Self {
        Self { private: Secret::zeroed(), public: [0; 32], key: None }
    }

    fn load(&mut self) -> Option<()> {
        let key = PrivateKey::from_private_key(&X25519, self.private.expose()).ok()?;
        self.public = key.compute_public_key().ok()?.as_ref().try_into().ok()?;
        self.key = Some(key);
        Some(())
    }
}

impl Dh for X25519Dh {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    /// snow gives no way to refuse here: without a key every later exchange fails instead.
    fn set(&mut self, private: &[u8]) {
        self.key = None;
        if private.len() == self.private.expose().len() {
            self.private.bytes_mut().copy_from_slice(private);
            self.load();
        }
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        self.key = None;
        random.try_fill_bytes(self.private.bytes_mut())?;
        self.load().ok_or(Error::Dh)
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.private.expose()
    }

    /// aws-lc refuses a peer key of small order, whose shared secret would be all zeros (RFC 7748 §6.1).
    fn dh(&self, public: &[u8], output: &mut [u8]) -> Result<(), Error> {
        let key = self.key.as_ref().ok_or(Error::Dh)?;
        let public = public.get(..32).ok_or(Error::Dh)?;
        let output = output.get_mut(..32).ok_or(Error::Dh)?;
        agree(key, UnparsedPublicKey::new(&X25519, public), Error::Dh, |shared| {
            if shared.len() != output.len() {
                return Err(Error::Dh);
            }
            output.copy_from_slice(shared);
            Ok(())
        })
    }
}

fn fresh() -> digest::Context {
    digest::Context::new(&digest::SHA256)
}

struct Sha256(digest::Context);

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = fresh();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, output: &mut [u8]) {
        let digest = std::mem::replace(&mut self.0, fresh()).finish();
        output.iter_mut().zip(digest.as_ref()).for_each(|(byte, digest)| *byte = *digest);
    }
}

struct AesGcm(Option<LessSafeKey>);

impl AesGcm {
    /// Noise §12.4: 32 zero bits and the counter, big-endian.
    fn nonce(counter: u64) -> Nonce {
        let mut nonce = [0; 12];
        let (_, low) = nonce.split_at_mut(4);
        low.copy_from_slice(&counter.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&self, counter: u64, aad: &[u8], plaintext: &[u8], output: &mut [u8]) -> Option<usize> {
        let key = self.0.as_ref()?;
        let (body, rest) = output.split_at_mut_checked(plaintext.len())?;
        let tag_place = rest.get_mut(..TAG_BYTES)?;
        body.copy_from_slice(plaintext);
        let tag = key.seal_in_place_separate_tag(Self::nonce(counter), Aad::from(aad), body).ok()?;
        tag_place.copy_from_slice(tag.as_ref());
        plaintext.len().checked_add(TAG_BYTES)
    }
}

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new);
    }

    #[expect(clippy::expect_used, reason = "snow sets the key first and checks the output's length")]
    fn encrypt(&self, nonce: u64, aad: &[u8], plaintext: &[u8], output: &mut [u8]) -> usize {
        self.seal(nonce, aad, plaintext, output).expect("a key is set and the output is long enough")
    }

    fn decrypt(&self, nonce: u64, aad: &[u8], ciphertext: &[u8], output: &mut [u8]) -> Result<usize, Error> {
        let key = self.0.as_ref().ok_or(Error::Decrypt)?;
        let (body, tag) = ciphertext.split_last_chunk::<TAG_BYTES>().ok_or(Error::Decrypt)?;
        let output = output.get_mut(..body.len()).ok_or(Error::Decrypt)?;
        key.open_separate_gather(Self::nonce(nonce), Aad::from(aad), body, tag, output)
            .map_err(|_| Error::Decrypt)?;
        Ok(body.len())
    }
}
