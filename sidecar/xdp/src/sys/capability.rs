//! Capabilities of the calling thread: capget(2), capset(2) and prctl(2) (linux/capability.h, linux/prctl.h).

use std::ffi::{c_int, c_ulong};
use std::io;

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`
#[repr(C)]
struct Header {
    version: u32,
    /// Zero is the calling thread.
    thread: c_int,
}

/// `struct __user_cap_data_struct`: one half of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The three sets that capset(2) writes, each with one bit per capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sets {
    pub(crate) effective: u64,
    pub(crate) permitted: u64,
    pub(crate) inheritable: u64,
}

pub(crate) fn read() -> io::Result<Sets> {
    let mut header = Header { version: VERSION, thread: 0 };
    let mut halves = [Half::default(); 2];
    // SAFETY: version 3 writes two halves behind the second pointer, and the version behind the first.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let [low, high] = halves;
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Ok(Sets {
        effective: join(low.effective, high.effective),
        permitted: join(low.permitted, high.permitted),
        inheritable: join(low.inheritable, high.inheritable),
    })
}

pub(crate) fn write(sets: Sets) -> io::Result<()> {
    let mut header = Header { version: VERSION, thread: 0 };
    let half = |shift: u32| Half {
        effective: (sets.effective >> shift) as u32,
        permitted: (sets.permitted >> shift) as u32,
        inheritable: (sets.inheritable >> shift) as u32,
    };
    let halves = [half(0), half(32)];
    // SAFETY: version 3 reads two halves behind the second pointer, and the header behind the first.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes a capability out of the ambient set.
pub(crate) fn lower_ambient(capability: u32) -> io::Result<()> {
    process_control(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_LOWER as c_ulong, c_ulong::from(capability))
}

/// Takes a capability out of the bounding set, which needs `CAP_SETPCAP`.
pub(crate) fn drop_bounding(capability: u32) -> io::Result<()> {
    process_control(libc::PR_CAPBSET_DROP, c_ulong::from(capability), 0)
}

/// From now on nothing that is executed gets more than the thread has.
pub(crate) fn forbid_new_privileges() -> io::Result<()> {
    process_control(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
}

fn process_control(operation: c_int, first: c_ulong, second: c_ulong) -> io::Result<()> {
    let none: c_ulong = 0;
    // SAFETY: the three operations above take integers alone.
    let result = unsafe { libc::prctl(operation, first, second, none, none) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
