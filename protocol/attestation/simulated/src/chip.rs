//! The processor that is simulated.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use sealane_types::{ChipId, Product};
use serde::{Deserialize, Serialize};

use crate::error::SimulationError;

/// Security patch levels of its firmware; `fmc` counts for Turin only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tcb {
    pub fmc: u8,
    pub bootloader: u8,
    pub tee: u8,
    pub snp: u8,
    pub microcode: u8,
}

impl Tcb {
    /// TCB_VERSION as reports of `product` hold it.
    #[must_use]
    pub const fn to_bytes(self, product: Product) -> [u8; 8] {
        let Self { fmc, bootloader, tee, snp, microcode } = self;
        match product {
            Product::Milan | Product::Genoa => [bootloader, tee, 0, 0, 0, 0, snp, microcode],
            Product::Turin => [fmc, bootloader, tee, snp, 0, 0, 0, microcode],
        }
    }
}

/// Product, firmware and identity. VCEK and reports agree on them, as they do on hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chip {
    pub product: Product,
    pub tcb: Tcb,
    pub id: ChipId,
}

impl Chip {
    /// A chip of `product` with a random id.
    ///
    /// # Errors
    /// [`SimulationError::Key`] when the system gives no randomness.
    pub fn random(product: Product) -> Result<Self, SimulationError> {
        let mut id = [0; 64];
        for byte in id.chunks_mut(hardware_id_bytes(product)).take(1) {
            SystemRandom::new().fill(byte)?;
        }
        let tcb = match product {
            Product::Milan => Tcb { fmc: 0, bootloader: 4, tee: 0, snp: 24, microcode: 219 },
            Product::Genoa => Tcb { fmc: 0, bootloader: 10, tee: 0, snp: 25, microcode: 84 },
            Product::Turin => Tcb { fmc: 1, bootloader: 1, tee: 1, snp: 3, microcode: 71 },
        };
        Ok(Self { product, tcb, id: ChipId::new(id) })
    }

    /// The fused part of the id, as the VCEK carries it.
    #[must_use]
    pub fn hardware_id(&self) -> &[u8] {
        let id = self.id.as_bytes();
        id.get(..hardware_id_bytes(self.product)).unwrap_or(id)
    }

    /// CPUID family, model and stepping of the product.
    pub(crate) const fn cpuid(&self) -> [u8; 3] {
        match self.product {
            Product::Milan => [0x19, 0x01, 0x01],
            Product::Genoa => [0x19, 0x11, 0x01],
            Product::Turin => [0x1a, 0x02, 0x01],
        }
    }
}

const fn hardware_id_bytes(product: Product) -> usize {
    match product {
        Product::Milan | Product::Genoa => 64,
        Product::Turin => 8,
    }
}
