//! AES-GCM and ChaCha20-Poly1305 of AWS-LC.

use std::ptr::{NonNull, null};

use aws_lc_sys::{
    EVP_AEAD, EVP_AEAD_CTX, EVP_AEAD_CTX_free, EVP_AEAD_CTX_new, EVP_AEAD_CTX_open_gather,
    EVP_AEAD_CTX_seal_scatter,
};

use super::{NONCE_BYTES, Places, TAG_BYTES};

/// A key with the cipher's context. AWS-LC wipes it as it frees it.
pub(super) struct Context(NonNull<EVP_AEAD_CTX>);

// SAFETY: the context belongs to no thread.
unsafe impl Send for Context {}
// SAFETY: sealing and opening only read it ("may be called concurrently with itself or any other call to seal or open", aead.h).
unsafe impl Sync for Context {}

impl Context {
    /// None when the library has no memory. `key` has the method's length.
    pub(super) fn new(method: unsafe extern "C" fn() -> *const EVP_AEAD, key: &[u8]) -> Option<Self> {
        // SAFETY: it gives the address of a constant.
        let method = unsafe { method() };
        // SAFETY: the key is that long, and is copied.
        let context = unsafe { EVP_AEAD_CTX_new(method, key.as_ptr(), key.len(), TAG_BYTES) };
        NonNull::new(context).map(Self)
    }

    /// None beyond what the algorithm seals at once.
    ///
    /// # Safety
    /// [`Places`] are what their documentation says, and can be read and written for their length.
    pub(super) unsafe fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        additional: &[u8],
        places: Places,
    ) -> Option<[u8; TAG_BYTES]> {
        let mut tag = [0; TAG_BYTES];
        let mut tag_bytes = 0;
        // SAFETY: the caller's promise for the places; the rest is borrowed here, with its lengths.
        let sealed = unsafe {
            EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                places.into,
                tag.as_mut_ptr(),
                &raw mut tag_bytes,
                TAG_BYTES,
                nonce.as_ptr(),
                NONCE_BYTES,
                places.from,
                places.length,
                null(),
                0,
                additional.as_ptr(),
                additional.len(),
            )
        };
        (sealed == 1 && tag_bytes == TAG_BYTES).then_some(tag)
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
        // SAFETY: as in `seal`.
        let opened = unsafe {
            EVP_AEAD_CTX_open_gather(
                self.0.as_ptr(),
                places.into,
                nonce.as_ptr(),
                NONCE_BYTES,
                places.from,
                places.length,
                tag.as_ptr(),
                TAG_BYTES,
                additional.as_ptr(),
                additional.len(),
            )
        };
        opened == 1
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made here, and nobody uses it any more.
        unsafe { EVP_AEAD_CTX_free(self.0.as_ptr()) };
    }
}
