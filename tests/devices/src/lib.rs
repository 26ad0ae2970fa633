//! Devices of confidential guests, emulated by a file system: configfs-tsm, /dev/sev-guest and /dev/nsm, as the
//! kernel shows them. Bound over the real paths in a mount namespace of its own, they take the place of hardware under
//! the unchanged code that asks for evidence. For tests only.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "for tests: a failure here is a failure of the test"
)]

mod files;
mod ioctl;
mod tree;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::{BackgroundSession, Config, MountOption};

/// Signs report data: what the hardware behind the devices would do.
pub type Sign = Box<dyn Fn(&[u8; 64]) -> Vec<u8> + Send>;

/// What the devices do; a test changes it while they run.
#[expect(missing_debug_implementations, reason = "it holds a closure, and nothing prints it")]
pub struct Behaviour {
    /// The word in configfs-tsm's `provider`.
    pub provider: &'static str,
    /// The report of an SEV-SNP guest, or the quote of a TDX guest.
    pub sign: Sign,
    /// The certificate table that the host gave.
    pub table: Vec<u8>,
    /// Somebody else writes to the same entry of configfs-tsm.
    pub raced: bool,
    /// The most privileged level that /dev/sev-guest grants.
    pub level: u32,
    /// Entries of configfs-tsm that exist.
    pub entries: usize,
}

/// The mounted devices; unmounted when dropped.
#[expect(missing_debug_implementations, reason = "it holds a closure, and nothing prints it")]
pub struct Devices {
    behaviour: Arc<Mutex<Behaviour>>,
    _session: BackgroundSession,
}

impl Devices {
    /// Serves `report/`, `sev-guest` and `nsm` at `mountpoint`.
    ///
    /// # Errors
    /// Without /dev/fuse or the privilege to mount.
    pub fn mount(mountpoint: &Path, behaviour: Behaviour) -> io::Result<Self> {
        let behaviour = Arc::new(Mutex::new(behaviour));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("sealane-devices".to_owned())];
        let session = fuser::spawn_mount(files::Files::new(Arc::clone(&behaviour)), mountpoint, &config)?;
        Ok(Self { behaviour, _session: session })
    }

    pub fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap()
    }
}
