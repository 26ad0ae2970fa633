//! Sealed units on the wire. The only module that uses an AEAD.

mod rekey;

pub use rekey::Rekey;

/// Bytes that are not the next record of this link. The first one ends the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("its type is unknown")]
    Kind,
    #[error("its length is out of range")]
    Length,
    #[error("it does not verify: changed, deleted, repeated, reordered or reflected on the way")]
    Tag,
    #[error("its key should have been replaced long ago")]
    KeyOverdue,
    #[error("its key was replaced without having been used")]
    KeyUnused,
    #[error("its sequence number is spent")]
    Exhausted,
}
