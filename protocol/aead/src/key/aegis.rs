//! AEGIS-256X4 (draft-irtf-cfrg-aegis-aead) of libaegis, which the crate `aegis` builds: its own interface takes slices.

use std::ffi::c_int;
use std::sync::Once;

// Links the library.
use aegis as _;
use zeroize::Zeroizing;

use super::{NONCE_BYTES, Places, TAG_BYTES};

/// Of AEGIS-256 in all its widths.
pub(super) const KEY_BYTES: usize = 32;
/// The library's nonces. Ours stand at their beginning, before zeros: for one key no two are alike, which is all that the
/// algorithm asks of them.
const LONG_NONCE_BYTES: usize = 32;

unsafe extern "C" {
    fn aegis_init() -> c_int;

    fn aegis256x4_encrypt_detached(
        ciphertext: *mut u8,
        tag: *mut u8,
        tag_bytes: usize,
        plaintext: *const u8,
        plaintext_bytes: usize,
        additional: *const u8,
        additional_bytes: usize,
        nonce: *const u8,
        key: *const u8,
    ) -> c_int;

    fn aegis256x4_decrypt_detached(
        plaintext: *mut u8,
        ciphertext: *const u8,
        ciphertext_bytes: usize,
        tag: *const u8,
        tag_bytes: usize,
        additional: *const u8,
        additional_bytes: usize,
        nonce: *const u8,
        key: *const u8,
    ) -> c_int;
}

/// The key alone: the state is made anew for each message, in 110 ns with one of 1,456 B.
pub(super) struct Context(Box<Zeroizing<[u8; KEY_BYTES]>>);

impl Context {
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Self {
        static CHOSEN: Once = Once::new();
        CHOSEN.call_once(|| {
            // SAFETY: it looks at the processor, and chooses the implementation. It fails nowhere.
            unsafe { aegis_init() };
        });
        // On the heap, so that moving it leaves no copy behind.
        let mut own = Box::new(Zeroizing::new([0; KEY_BYTES]));
        own.copy_from_slice(key);
        Self(own)
    }

    /// None when the library refuses, which it does nowhere.
    ///
    /// # Safety
    /// [`Places`] are what their documentation says, and can be read and written for their length.
    pub(super) unsafe fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        additional: &[u8],
        places: Places,
    ) -> Option<[u8; TAG_BYTES]> {
        // SAFETY: the caller's promise.
        unsafe { self.seal_under(&long(nonce), additional, places) }
    }

    /// As [`Self::seal`], under a nonce of the library's.
    ///
    /// # Safety
    /// As [`Self::seal`].
    unsafe fn seal_under(
        &self,
        nonce: &[u8; LONG_NONCE_BYTES],
        additional: &[u8],
        places: Places,
    ) -> Option<[u8; TAG_BYTES]> {
        let mut tag = [0; TAG_BYTES];
        // SAFETY: the caller's promise for the places; the rest is borrowed here, with its lengths.
        let sealed = unsafe {
            aegis256x4_encrypt_detached(
                places.into,
                tag.as_mut_ptr(),
                TAG_BYTES,
                places.from,
                places.length,
                additional.as_ptr(),
                additional.len(),
                nonce.as_ptr(),
                self.0.as_ptr(),
            )
        };
        (sealed == 0).then_some(tag)
    }

    /// Whether the tag verifies; the destination is zero otherwise.
    ///
    /// # Safety
    /// As [`Self::seal`].
    pub(super) unsafe fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        additional: &[u8],
        tag: &[u8; TAG_BYTES],
        places: Places,
    ) -> bool {
        let nonce = long(nonce);
        // SAFETY: as in `seal`.
        let opened = unsafe {
            aegis256x4_decrypt_detached(
                places.into,
                places.from,
                places.length,
                tag.as_ptr(),
                TAG_BYTES,
                additional.as_ptr(),
                additional.len(),
                nonce.as_ptr(),
                self.0.as_ptr(),
            )
        };
        opened == 0
    }
}

fn long(nonce: &[u8; NONCE_BYTES]) -> [u8; LONG_NONCE_BYTES] {
    let mut long = [0; LONG_NONCE_BYTES];
    long[..NONCE_BYTES].copy_from_slice(nonce);
    long
}

// FFI is out of reach for Miri.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn it_makes_what_the_draft_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/aegis.json");
        let vectors: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let cases = vectors["cases"].as_array().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let bytes = |name: &str| hex::decode(case[name].as_str().unwrap()).unwrap();
            let context = Context::new(&bytes("key").try_into().unwrap());
            let mut message = bytes("msg");
            let nonce = bytes("nonce").try_into().unwrap();
            // SAFETY: both places are the message, which nobody else has.
            let tag = unsafe { context.seal_under(&nonce, &bytes("ad"), Places::same(&mut message)) };
            assert_eq!((message, tag.unwrap().to_vec()), (bytes("ct"), bytes("tag")), "{}", case["example"]);
        }
    }
}
