//! A memory file together with its mapping.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use sealane_aead::VolatileSlice;

use crate::mapping::Mapping;

/// A memory file (memfd_create(2)) of which all pages exist, and whose size nobody can change.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    bytes: u64,
    mapping: Mapping,
}

impl SharedMemory {
    /// Creates, fills, seals and maps `bytes`, a multiple of the page size. Takes milliseconds per 16 MiB: not for an
    /// asynchronous thread.
    ///
    /// # Errors
    /// There is no memory, or the kernel knows no memory files.
    pub fn create(bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let file = memory_file()?;
        rustix::fs::ftruncate(&file, bytes)?;
        // Pages that are missing later could not be refused then: an access would end in SIGBUS or the OOM killer.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Mapping::new(file.as_fd(), length)?;
        Ok(Self { file, bytes, mapping })
    }

    /// What the other process maps.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// `length` bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof`: some of it lies beyond the end.
    pub fn slice(&self, offset: u64, length: usize) -> io::Result<VolatileSlice<'_>> {
        self.mapping.slice(offset, length)
    }

    /// Copies all of `into` from `offset` on.
    ///
    /// # Errors
    /// As [`Self::slice`], and nothing was copied.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.slice(offset, into.len())?.copy_to(into).map_err(io::Error::other)
    }

    /// Copies all of `bytes` to `offset`.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.slice(offset, bytes.len())?.copy_from(bytes).map_err(io::Error::other)
    }

    /// Gives all pages back, which are zero from then on, whoever has them mapped. Whoever touches one again is charged for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn discard(&self) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, 0, self.bytes)?)
    }
}

fn memory_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know NOEXEC_SEAL.
    match rustix::fs::memfd_create("sealane", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => Ok(rustix::fs::memfd_create("sealane", flags)?),
        file => Ok(file?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;

    const BYTES: u64 = 65_536;

    fn client(memory: &SharedMemory) -> std::fs::File {
        memory.descriptor().try_clone_to_owned().unwrap().into()
    }

    #[test]
    fn both_processes_see_what_either_wrote() {
        let memory = SharedMemory::create(BYTES).unwrap();
        let client = client(&memory);
        memory.write_at(65_530, b"sealed").unwrap();
        let mut back = [0; 6];
        client.read_exact_at(&mut back, 65_530).unwrap();
        assert_eq!(&back, b"sealed");
        client.write_all_at(b"opened", 3).unwrap();
        memory.read_at(3, &mut back).unwrap();
        assert_eq!(&back, b"opened");
    }

    #[test]
    fn nobody_changes_its_size_or_forbids_to_write() {
        let memory = SharedMemory::create(BYTES).unwrap();
        for size in [0, BYTES - 4096, BYTES + 4096] {
            assert!(client(&memory).set_len(size).is_err(), "{size}");
        }
        assert!(rustix::fs::fcntl_add_seals(memory.descriptor(), SealFlags::WRITE).is_err());
    }

    #[test]
    fn pages_go_back_although_a_client_keeps_the_file() {
        let memory = SharedMemory::create(BYTES).unwrap();
        let kept = client(&memory);
        let blocks = || rustix::fs::fstat(&kept).unwrap().st_blocks;
        assert_ne!(blocks(), 0);
        memory.discard().unwrap();
        assert_eq!(blocks(), 0);
    }

    /// A client can do that at any time: what it takes away comes back as zeros, and no access fails.
    #[test]
    fn holes_are_zeros() {
        let memory = SharedMemory::create(BYTES).unwrap();
        memory.write_at(0, &[7; 8192]).unwrap();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(memory.descriptor(), flags, 4096, BYTES - 4096).unwrap();
        let mut back = [1; 8192];
        memory.read_at(0, &mut back).unwrap();
        assert!(back[..4096].iter().all(|byte| *byte == 7) && back[4096..].iter().all(|byte| *byte == 0));
        memory.write_at(60_000, b"again").unwrap();
        memory.read_at(60_000, &mut back[..5]).unwrap();
        assert_eq!(&back[..5], b"again");
    }

    proptest! {
        #[test]
        fn nothing_beyond_the_end_is_reached(offset in prop_oneof![0..2 * BYTES, any::<u64>()], length in 0..100_000_usize) {
            let memory = SharedMemory::create(BYTES).unwrap();
            let inside = offset.checked_add(length as u64).is_some_and(|end| end <= BYTES);
            let mut bytes = vec![1; length];
            let (written, read) = (memory.write_at(offset, &bytes), memory.read_at(offset, &mut bytes));
            if inside {
                prop_assert!(written.is_ok() && read.is_ok());
            } else {
                prop_assert_eq!(written.unwrap_err().kind(), ErrorKind::UnexpectedEof);
                prop_assert_eq!(read.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            }
        }
    }
}
