//! The record of what is held, in a directory that outlives the process.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use sealane_attestation::limits::RECORD_BYTES_MAX;

use crate::volume;

/// What the record is called.
const NAME: &str = "collateral.json";

/// Where the record lies.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
}

impl RecordFile {
    #[must_use]
    pub(super) fn within(directory: PathBuf) -> Self {
        Self { path: directory.join(NAME) }
    }

    /// What an earlier process left; nothing where none did.
    ///
    /// # Errors
    /// It is there and cannot be read, or is no plain file of a record's size.
    pub(super) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        match volume::read(&self.path, RECORD_BYTES_MAX as u64) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Leaves `record` for a later process, as a whole or not at all. A process that is denied the directory goes on without.
    pub(super) fn write(&self, record: &[u8]) {
        if let Err(error) = volume::replace(&self.path, record) {
            let file = self.path.display();
            tracing::warn!(%file, %error, "what is held of collateral will be forgotten at a restart");
        }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }
}
