//! One way in which a Peer may prove itself.

use std::collections::BTreeSet;
use std::fmt;

use sealane_types::{Assurance, ChipId, Digest, HostData, Measurement, Platform, Product, PublicKey};

/// Reference values and permissions for one platform. Sets that are empty pin nothing; [`Entry::absent`] names
/// them, so that what is left open is shown and never forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Platform,
    /// How closely evidence under this entry is bound to the workload: stated by the owners, never taken from
    /// the peer. Always [`Assurance::Simulated`] for kind Simulated and [`Assurance::Key`] for kind Key.
    pub assurance: Assurance,
    /// Accepted launch measurements; never empty for SevSnp and Simulated.
    pub measurements: BTreeSet<Measurement>,
    /// Accepted HOST_DATA values. Empty: any.
    pub host_data: BTreeSet<HostData>,
    /// Accepted processor families. Empty: any.
    pub products: BTreeSet<Product>,
    /// Accepted processors. Empty: any.
    pub chip_ids: BTreeSet<ChipId>,
    /// Floor for the reported, committed and launch TCB.
    pub min_tcb: Tcb,
    /// What a node agent must state about the pod (assurance Node).
    pub workload: Option<Workload>,
    pub permissions: Permissions,
    /// Pinned X25519 keys (kind Key); empty otherwise.
    pub public_keys: BTreeSet<PublicKey>,
    /// SHA-256 of the DER of the simulated root certificate (kind Simulated); absent otherwise.
    pub root: Option<Digest>,
}

/// Security version numbers, each a minimum. An absent component accepts any value and is shown as absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tcb {
    /// Turin only.
    pub fmc: Option<u8>,
    pub bootloader: Option<u8>,
    pub tee: Option<u8>,
    pub snp: Option<u8>,
    pub microcode: Option<u8>,
}

impl Tcb {
    /// Whether no component is bounded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A pod as the node agent states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub service_account: String,
    /// Image references by digest; empty: any.
    pub images: BTreeSet<String>,
}

/// What is refused unless the entry says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The host may read the guest's memory.
    pub debug: bool,
    /// A migration agent may move the guest.
    pub migration: bool,
    /// The evidence may be signed by a key that a cloud provider holds (VLEK) instead of the chip's own.
    pub vlek: bool,
    /// Two threads of one core may serve different guests.
    pub smt: bool,
    /// Evidence proves the node only and nobody states which workload runs there.
    pub unverified_workload: bool,
    /// Highest privilege level that may ask for evidence; 0 is the most privileged.
    pub vmpl_max: u8,
}

/// A reference value that an entry could pin and does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pinnable {
    HostData,
    Products,
    TcbBootloader,
    TcbTee,
    TcbSnp,
    TcbMicrocode,
    WorkloadImages,
}

impl fmt::Display for Pinnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostData => "hostData",
            Self::Products => "products",
            Self::TcbBootloader => "minTcb.bootloader",
            Self::TcbTee => "minTcb.tee",
            Self::TcbSnp => "minTcb.snp",
            Self::TcbMicrocode => "minTcb.microcode",
            Self::WorkloadImages => "workload.images",
        })
    }
}

impl Entry {
    /// Reference values that evidence of this kind carries and this entry leaves open. Each is a degradation,
    /// or a refusal of the document when `floors.complete` is set.
    #[must_use]
    pub fn absent(&self) -> Vec<Pinnable> {
        let open_images = self.workload.as_ref().is_some_and(|workload| workload.images.is_empty());
        let snp = self.kind == Platform::SevSnp;
        let launched = snp || self.kind == Platform::Simulated;
        [
            (launched && self.host_data.is_empty(), Pinnable::HostData),
            (snp && self.products.is_empty(), Pinnable::Products),
            (snp && self.min_tcb.bootloader.is_none(), Pinnable::TcbBootloader),
            (snp && self.min_tcb.tee.is_none(), Pinnable::TcbTee),
            (snp && self.min_tcb.snp.is_none(), Pinnable::TcbSnp),
            (snp && self.min_tcb.microcode.is_none(), Pinnable::TcbMicrocode),
            (open_images, Pinnable::WorkloadImages),
        ]
        .into_iter()
        .filter_map(|(open, value)| open.then_some(value))
        .collect()
    }
}
