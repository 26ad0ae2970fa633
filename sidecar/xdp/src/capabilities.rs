//! Capabilities (capabilities(7)): what a link needs to be set up, and how they are dropped afterwards. A link that is
//! open needs none.

use std::fmt;
use std::io;

use crate::sys::capability;

/// A set of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(u64);

/// `CAP_LAST_CAP` of linux/capability.h.
const LAST: u32 = 40;

impl Capabilities {
    pub const SETPCAP: Self = Self(1 << 8);
    pub const NET_ADMIN: Self = Self(1 << 12);
    pub const NET_RAW: Self = Self(1 << 13);
    pub const IPC_LOCK: Self = Self(1 << 14);
    pub const SYS_ADMIN: Self = Self(1 << 21);
    pub const BPF: Self = Self(1 << 39);

    /// Those without which no link is opened: a raw socket, a program, a program on an interface.
    pub const NEEDED: Self = Self(Self::NET_RAW.0 | Self::NET_ADMIN.0 | Self::BPF.0);

    /// All that there are.
    pub const ALL: Self = Self((1 << (LAST + 1)) - 1);

    /// What the calling thread can use now.
    pub fn held() -> io::Result<Self> {
        Ok(Self(capability::read()?.effective))
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are needed and not in this set. `CAP_SYS_ADMIN` stands for `CAP_BPF`, as it does in the kernel.
    pub(crate) fn lacks(self) -> Self {
        let held = if self.contains(Self::SYS_ADMIN) { self.union(Self::BPF) } else { self };
        Self::NEEDED.without(held)
    }

    fn numbers(self) -> impl Iterator<Item = u32> {
        (0..=LAST).filter(move |number| self.0 >> number & 1 == 1)
    }
}

/// Why capabilities could not be dropped. The environment's fault.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    #[error("the kernel did not let capabilities be dropped")]
    Kernel(#[source] io::Error),
    /// The kernel said that it did, and did not.
    #[error("still held after being dropped: {0}")]
    StillHeld(Capabilities),
}

/// Drops capabilities of the calling thread for good, from every set: ambient, inheritable, permitted, effective and,
/// with `CAP_SETPCAP`, bounding; and sets `no_new_privs`, so that nothing that is executed gets them back either.
///
/// Threads have capabilities of their own. Those that were started before keep theirs, so this comes before any thread,
/// or in each: [`held_by_any_thread`] tells.
pub fn drop_capabilities(set: Capabilities) -> Result<(), DropError> {
    let before = capability::read().map_err(DropError::Kernel)?;
    let bounding = Capabilities(before.effective).contains(Capabilities::SETPCAP);
    for number in set.numbers() {
        known(capability::lower_ambient(number)).map_err(DropError::Kernel)?;
        if bounding {
            known(capability::drop_bounding(number)).map_err(DropError::Kernel)?;
        }
    }
    capability::forbid_new_privileges().map_err(DropError::Kernel)?;
    let kept = |sets: u64| Capabilities(sets).without(set).0;
    capability::write(capability::Sets {
        effective: kept(before.effective),
        permitted: kept(before.permitted),
        inheritable: kept(before.inheritable),
    })
    .map_err(DropError::Kernel)?;
    let after = capability::read().map_err(DropError::Kernel)?;
    let left = Capabilities((after.effective | after.permitted | after.inheritable) & set.0);
    if left.is_empty() { Ok(()) } else { Err(DropError::StillHeld(left)) }
}

/// What some thread of this process is still permitted, from `/proc/self/task`.
pub fn held_by_any_thread() -> io::Result<Capabilities> {
    let mut held = Capabilities::default();
    for task in std::fs::read_dir("/proc/self/task")? {
        match std::fs::read_to_string(task?.path().join("status")) {
            Ok(status) => held = held.union(permitted(&status).ok_or(io::ErrorKind::InvalidData)?),
            // A thread that has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}

/// The permitted set that a `status` file tells (proc(5)).
fn permitted(status: &str) -> Option<Capabilities> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"))?;
    u64::from_str_radix(line.trim(), 16).ok().map(Capabilities)
}

/// Older kernels know fewer capabilities, and refuse the others as invalid.
fn known(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) })
}

impl fmt::Display for Capabilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Capabilities, &str); 6] = [
            (Capabilities::SETPCAP, "CAP_SETPCAP"),
            (Capabilities::NET_ADMIN, "CAP_NET_ADMIN"),
            (Capabilities::NET_RAW, "CAP_NET_RAW"),
            (Capabilities::IPC_LOCK, "CAP_IPC_LOCK"),
            (Capabilities::SYS_ADMIN, "CAP_SYS_ADMIN"),
            (Capabilities::BPF, "CAP_BPF"),
        ];
        let mut rest = *self;
        let mut separator = "";
        for (capability, name) in NAMES {
            if self.contains(capability) {
                write!(formatter, "{separator}{name}")?;
                separator = ", ";
                rest = rest.without(capability);
            }
        }
        for number in rest.numbers() {
            write!(formatter, "{separator}capability {number}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_missing() {
        assert_eq!(Capabilities::default().lacks().to_string(), "CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF");
        assert_eq!(Capabilities::NET_RAW.union(Capabilities::SYS_ADMIN).lacks(), Capabilities::NET_ADMIN);
        assert!(Capabilities::ALL.lacks().is_empty());
        assert_eq!(Capabilities(1 << 40 | 1 << 13).to_string(), "CAP_NET_RAW, capability 40");
    }

    #[test]
    fn reads_what_proc_says() {
        let status = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000008000003000\nCapEff:\t0\n";
        assert_eq!(permitted(status), Some(Capabilities::NEEDED));
        assert_eq!(permitted("CapPrm:\tnothing\n"), None);
        assert_eq!(permitted(""), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no capabilities")]
    fn a_thread_that_dropped_its_own_leaves_those_of_others() {
        let others = Capabilities::held().unwrap();
        std::thread::spawn(move || {
            drop_capabilities(Capabilities::ALL).unwrap();
            assert!(Capabilities::held().unwrap().is_empty());
            assert!(held_by_any_thread().unwrap().contains(others));
        })
        .join()
        .unwrap();
    }
}
