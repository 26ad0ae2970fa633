//! One way in which a Peer may prove itself.

use std::collections::BTreeSet;
use std::fmt;

use sealane_types::{Assurance, Digest, Platform, PublicKey};

pub(crate) use nitro::PCRS;
pub use nitro::{NitroMeasurement, NitroPermissions, NitroReference};
pub use snp::{SnpAbi, SnpFirmware, SnpIdentity, SnpPermissions, SnpReference, Tcb};
pub use tdx::{TdxMeasurement, TdxPermissions, TdxReference};

mod nitro;
mod snp;
mod tdx;

/// What one accepted platform must show. Sets that are empty pin nothing; [`Entry::absent`] names them, so that
/// what is left open is shown and never forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// How closely evidence under this entry is bound to the workload: stated by the owners, never taken from
    /// the peer. Always [`Assurance::Simulated`] under a simulated root and [`Assurance::Key`] for pinned keys.
    pub assurance: Assurance,
    /// SHA-256 of the DER of a simulated root certificate: it makes this an entry of kind Simulated, whose
    /// evidence has the form that `reference` says.
    pub root: Option<Digest>,
    /// What a node agent must state about the pod (assurance Node).
    pub workload: Option<Workload>,
    /// Evidence proves the node only, and nobody needs to state which workload runs there.
    pub unverified_workload: bool,
    pub reference: Reference,
}

/// Reference values (RFC 9334) and permissions, in the terms of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    SevSnp(SnpReference),
    Tdx(TdxReference),
    Nitro(NitroReference),
    /// Pinned Ed25519 keys.
    Key(BTreeSet<PublicKey>),
}

impl Reference {
    /// The platform whose evidence these values describe, real or simulated.
    #[must_use]
    pub const fn form(&self) -> Platform {
        match self {
            Self::SevSnp(_) => Platform::SevSnp,
            Self::Tdx(_) => Platform::Tdx,
            Self::Nitro(_) => Platform::Nitro,
            Self::Key(_) => Platform::Key,
        }
    }
}

/// A pod as the node agent states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub service_account: String,
    /// Image references by digest, of every container that the pod may have, the sidecar among them; empty: any.
    pub images: BTreeSet<String>,
}

impl Workload {
    /// Whether a container may run the image with this digest. What stands before the digest is for readers: the same
    /// image has many names.
    #[must_use]
    pub fn permits(&self, image: &Digest) -> bool {
        self.images.is_empty() || self.digests().contains(image)
    }

    /// What the image references pin.
    pub(crate) fn digests(&self) -> BTreeSet<Digest> {
        let digest = |image: &String| image.split_once("@sha256:")?.1.parse().ok();
        self.images.iter().filter_map(digest).collect()
    }
}

/// A reference value that an entry could pin and does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pinnable {
    HostData,
    Products,
    /// Of Turin; an entry for other products as well misses it only where a Turin shows up.
    TcbFmc,
    TcbBootloader,
    TcbTee,
    TcbSnp,
    TcbMicrocode,
    /// Only of evidence that a cloud provider's key signed; no document is incomplete without it.
    VlekProviders,
    /// Of a Nitro enclave: the IAM role of its parent instance.
    Pcr3,
    /// Of a TDX guest, like the five below.
    Rtmr3,
    MrConfigId,
    MrOwner,
    MrOwnerConfig,
    Fmspcs,
    TcbEvaluation,
    WorkloadImages,
}

impl fmt::Display for Pinnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostData => "hostData",
            Self::Products => "products",
            Self::TcbFmc => "minTcb.fmc",
            Self::TcbBootloader => "minTcb.bootloader",
            Self::TcbTee => "minTcb.tee",
            Self::TcbSnp => "minTcb.snp",
            Self::TcbMicrocode => "minTcb.microcode",
            Self::VlekProviders => "vlekProviders",
            Self::Pcr3 => "measurements[].pcr3",
            Self::Rtmr3 => "measurements[].rtmr3",
            Self::MrConfigId => "mrConfigId",
            Self::MrOwner => "mrOwner",
            Self::MrOwnerConfig => "mrOwnerConfig",
            Self::Fmspcs => "fmspcs",
            Self::TcbEvaluation => "minTcbEvaluation",
            Self::WorkloadImages => "workload.images",
        })
    }
}

impl Entry {
    /// The platform as the document names it.
    #[must_use]
    pub const fn kind(&self) -> Platform {
        if self.root.is_some() { Platform::Simulated } else { self.reference.form() }
    }

    /// Reference values that evidence of this kind carries and this entry leaves open. Each is a degradation,
    /// or a refusal of the document when `floors.complete` is set.
    #[must_use]
    pub fn absent(&self) -> Vec<Pinnable> {
        // Hardware, its firmware and its vendor's collateral are not there to be pinned in a simulation.
        let real = self.root.is_none();
        let mut absent = match &self.reference {
            Reference::SevSnp(snp) => snp.absent(real),
            Reference::Tdx(tdx) => tdx.absent(real),
            Reference::Nitro(nitro) => nitro.absent(real),
            Reference::Key(_) => Vec::new(),
        };
        if self.workload.as_ref().is_some_and(|workload| workload.images.is_empty()) {
            absent.push(Pinnable::WorkloadImages);
        }
        absent
    }
}

/// The names of the values that are open.
fn open<const N: usize>(values: [(bool, Pinnable); N]) -> Vec<Pinnable> {
    values.into_iter().filter_map(|(open, value)| open.then_some(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_permitted_by_its_digest_alone() {
        let image = |byte| Digest::new([byte; 32]);
        let of = |images: &[u8]| {
            let images = images.iter().map(|byte| format!("r.example/app@sha256:{}", image(*byte))).collect();
            Workload { service_account: "embedder".to_owned(), images }
        };
        assert!(of(&[]).permits(&image(1)), "none is pinned");
        assert!(of(&[1, 2]).permits(&image(2)));
        assert!(!of(&[1, 2]).permits(&image(3)));
    }
}
