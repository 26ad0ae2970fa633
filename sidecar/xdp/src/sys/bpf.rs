//! The commands of bpf(2) that steering takes. Attributes are prefixes of `union bpf_attr` (linux/bpf.h): what is left
//! out is zero to the kernel.

use std::ffi::{CStr, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEMENT: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;
const LINK_DETACH: c_long = 34;

/// `BPF_MAP_TYPE_XSKMAP`
const MAP_TYPE_SOCKETS: u32 = 17;
/// `BPF_PROG_TYPE_XDP`
const PROGRAM_TYPE_XDP: u32 = 6;
/// `BPF_XDP` of `enum bpf_attach_type`
const ATTACH_TYPE_XDP: u32 = 37;

/// `XDP_FLAGS_SKB_MODE` (linux/if_link.h): the program runs on packets that the kernel has already taken in.
pub(crate) const ATTACH_GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE` (linux/if_link.h): the program runs in the driver.
pub(crate) const ATTACH_NATIVE: u32 = 1 << 2;
/// `BPF_F_XDP_HAS_FRAGS`: the program can see packets of several buffers.
pub(crate) const PROGRAM_HAS_FRAGMENTS: u32 = 1 << 5;

/// One instruction as the kernel takes it: `struct bpf_insn`, eight bytes.
pub(crate) type Instruction = [u8; 8];

/// A name that `bpftool` shows: at most 15 bytes (`BPF_OBJ_NAME_LEN`).
pub(crate) type Name = [u8; 16];

/// A structure that bpf(2) reads.
///
/// # Safety
/// The structure is a prefix of `union bpf_attr`, without padding, and every pointer in it stays valid, for as many
/// bytes as the command reads or writes, as long as the value lives.
unsafe trait Attribute {}

#[repr(C)]
#[derive(Debug)]
struct CreateMap {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    map_flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: Name,
}

// SAFETY: a prefix of the part for BPF_MAP_CREATE, up to `map_name`, and without pointers.
unsafe impl Attribute for CreateMap {}

#[repr(C)]
#[derive(Debug)]
struct UpdateElement {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

// SAFETY: the part for BPF_MAP_UPDATE_ELEM; `update_sockets` is the only place that makes one.
unsafe impl Attribute for UpdateElement {}

#[repr(C)]
#[derive(Debug)]
struct LoadProgram {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: Name,
}

// SAFETY: a prefix of the part for BPF_PROG_LOAD, up to `prog_name`; `load` is the only place that makes one.
unsafe impl Attribute for LoadProgram {}

#[repr(C)]
#[derive(Debug)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

// SAFETY: a prefix of the part for BPF_LINK_CREATE, up to `flags`, and without pointers.
unsafe impl Attribute for CreateLink {}

#[repr(C)]
#[derive(Debug)]
struct DetachLink {
    link: u32,
}

// SAFETY: the part for BPF_LINK_DETACH, without pointers.
unsafe impl Attribute for DetachLink {}

/// A map from a queue's number to the AF_XDP socket that takes its packets.
pub(crate) fn create_socket_map(entries_max: u32, name: Name) -> io::Result<OwnedFd> {
    owned(call(
        MAP_CREATE,
        &CreateMap {
            map_type: MAP_TYPE_SOCKETS,
            key_bytes: 4,
            value_bytes: 4,
            entries_max,
            map_flags: 0,
            inner_map: 0,
            numa_node: 0,
            name,
        },
    )?)
}

/// Puts `socket` into the map. The kernel takes it out again when the socket is closed.
pub(crate) fn update_sockets(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    // Both outlive the call, and are of the four bytes that the map was made for.
    let socket = socket.as_raw_fd().cast_unsigned();
    call(
        MAP_UPDATE_ELEMENT,
        &UpdateElement {
            map: map.as_raw_fd().cast_unsigned(),
            unused: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const socket).expose_provenance() as u64,
            flags: 0,
        },
    )?;
    Ok(())
}

/// Loads a program that is attached as XDP. What the verifier has to say is written into `log`, unless that is empty.
pub(crate) fn load(
    instructions: &[Instruction],
    license: &CStr,
    flags: u32,
    name: Name,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let silent = log.is_empty();
    let log_bytes = u32::try_from(log.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    owned(call(
        PROGRAM_LOAD,
        &LoadProgram {
            program_type: PROGRAM_TYPE_XDP,
            instruction_count: u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            license: license.as_ptr().expose_provenance() as u64,
            log_level: u32::from(!silent),
            log_bytes,
            log: if silent { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
            kernel_version: 0,
            flags,
            name,
        },
    )?)
}

/// Attaches a program for as long as the returned descriptor is open in any process.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd().cast_unsigned();
    owned(call(LINK_CREATE, &CreateLink { program, interface, attach_type: ATTACH_TYPE_XDP, flags })?)
}

/// Detaches what [`attach`] attached, before this returns. Closing the descriptor alone does so later, in the kernel's
/// background work.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    call(LINK_DETACH, &DetachLink { link: link.as_raw_fd().cast_unsigned() })?;
    Ok(())
}

/// Pads a name with zeros; one is always left at its end.
pub(crate) const fn name(text: &str) -> Name {
    let bytes = text.as_bytes();
    let mut name = [0; 16];
    assert!(bytes.len() < name.len(), "names of programs and maps are short");
    let mut at = 0;
    while at < bytes.len() {
        name[at] = bytes[at];
        at += 1;
    }
    name
}

fn call<A: Attribute>(command: c_long, attribute: &A) -> io::Result<c_long> {
    let pointer = std::ptr::from_ref(attribute);
    // SAFETY: the kernel reads as many bytes as the attribute has, and `Attribute` answers for the pointers in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: c_long) -> io::Result<OwnedFd> {
    let descriptor = RawFd::try_from(descriptor).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: bpf(2) has just made this descriptor, so nobody else owns it; bpf sets close-on-exec itself.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
#[cfg(not(miri))]
pub(crate) mod tests {
    use super::*;

    const PROGRAM_TEST_RUN: c_long = 10;

    /// The part for `BPF_PROG_TEST_RUN`.
    #[repr(C)]
    struct TestRun {
        program: u32,
        result: u32,
        input_bytes: u32,
        output_bytes: u32,
        input: u64,
        output: u64,
        repeat: u32,
        duration: u32,
    }

    /// Runs an XDP program on a packet, as from queue 0, and returns its action.
    pub(crate) fn run(program: BorrowedFd<'_>, packet: &[u8]) -> u32 {
        let mut attribute = TestRun {
            program: program.as_raw_fd().cast_unsigned(),
            result: u32::MAX,
            input_bytes: u32::try_from(packet.len()).unwrap(),
            output_bytes: 0,
            input: packet.as_ptr().expose_provenance() as u64,
            output: 0,
            repeat: 1,
            duration: 0,
        };
        let pointer = &raw mut attribute;
        // SAFETY: the kernel reads the packet behind `input`, writes no packet, and writes the attribute's own fields.
        let result = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_TEST_RUN, pointer, size_of::<TestRun>()) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        attribute.result
    }
}
