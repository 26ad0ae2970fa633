//! ATTESTATION_REPORT, version 3 (AMD 56860, table 23).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::EcdsaKeyPair;
use sealane_types::{HostData, Measurement};

use crate::chip::Chip;
use crate::error::SimulationError;

/// Bytes of a report.
pub const REPORT_BYTES: usize = 0x4a0;

const SIGNED_BYTES: usize = 0x2a0;
const SIGNATURE_R: usize = 0x2a0;
const SIGNATURE_S: usize = 0x2e8;
const SCALAR_BYTES: usize = 48;

/// What a report states; everything else in it is the same for every simulated guest.
pub(crate) struct Statement<'a> {
    pub(crate) chip: &'a Chip,
    pub(crate) measurement: Measurement,
    pub(crate) host_data: HostData,
    pub(crate) report_data: [u8; 64],
    pub(crate) report_id: [u8; 32],
}

impl Statement<'_> {
    /// The report without its signature.
    pub(crate) fn to_report(&self) -> [u8; REPORT_BYTES] {
        let tcb = self.chip.tcb.to_bytes(self.chip.product);
        let mut report = [0; REPORT_BYTES];
        let mut put = |offset: usize, bytes: &[u8]| {
            report[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(0x00, &3_u32.to_le_bytes());
        // Guest policy: bit 17 is always one; no debugging, no migration, no simultaneous multithreading.
        put(0x08, &(1_u64 << 17).to_le_bytes());
        // Signature algorithm: ECDSA on P-384 with SHA-384. VMPL, at 0x30, is 0.
        put(0x34, &1_u32.to_le_bytes());
        put(0x38, &tcb);
        // PLATFORM_INFO: the alias check of memory is complete.
        put(0x40, &(1_u64 << 5).to_le_bytes());
        put(0x50, &self.report_data);
        put(0x90, self.measurement.as_bytes());
        put(0xc0, self.host_data.as_bytes());
        put(0x140, &self.report_id);
        // REPORT_ID_MA: no migration agent.
        put(0x160, &[0xff; 32]);
        put(0x180, &tcb);
        put(0x188, &self.chip.cpuid());
        put(0x1a0, self.chip.id.as_bytes());
        put(0x1e0, &tcb);
        // Build, minor and major of the firmware, current and committed: 1.55.29.
        put(0x1e8, &[29, 55, 1, 0, 29, 55, 1, 0]);
        put(0x1f0, &tcb);
        report
    }
}

/// Signs what a report states now. Its scalars are little-endian, those of the library big-endian.
pub(crate) fn write_signature(
    report: &mut [u8; REPORT_BYTES],
    key: &EcdsaKeyPair,
) -> Result<(), SimulationError> {
    let signature = key.sign(&SystemRandom::new(), &report[..SIGNED_BYTES])?;
    let scalars = signature.as_ref().chunks_exact(SCALAR_BYTES);
    for (scalar, offset) in scalars.zip([SIGNATURE_R, SIGNATURE_S]) {
        let to = &mut report[offset..offset + SCALAR_BYTES];
        to.copy_from_slice(scalar);
        to.reverse();
    }
    Ok(())
}
