//! PLATFORM_INFO (AMD 56860, table 24) and the guest policy's demands on the platform (§4.3).

use std::collections::BTreeSet;

use sealane_types::SnpProtection;

use crate::rejection::Rejection;

// Bits of PLATFORM_INFO. Genuine Turins set bit 6, which later revisions of the specification name.
const SMT: u32 = 0;
const TSME: u32 = 1;
const ECC: u32 = 2;
const RAPL_DISABLED: u32 = 3;
const CIPHERTEXT_HIDING: u32 = 4;
const ALIAS_CHECK_COMPLETE: u32 = 5;
const IOMMU_WRITE_SAFE: u32 = 6;
const TRUSTED_IO: u32 = 7;
/// Bits above have no name yet.
const PLATFORM_KNOWN: u64 = 0xff;

// Bits of the guest policy.
const POLICY_SMT: u32 = 16;
const POLICY_SINGLE_SOCKET: u32 = 20;
const POLICY_AES_XTS: u32 = 22;
const POLICY_RAPL_DISABLED: u32 = 23;
const POLICY_CIPHERTEXT_HIDING: u32 = 24;
const POLICY_PAGE_SWAP_DISABLED: u32 = 25;

/// What the platform says that it has, and what the guest's policy makes certain where no bit of the platform does.
const PROTECTIONS: [(Word, u32, SnpProtection); 9] = [
    (Word::Platform, ALIAS_CHECK_COMPLETE, SnpProtection::AliasCheck),
    (Word::Platform, ECC, SnpProtection::Ecc),
    (Word::Platform, TSME, SnpProtection::Tsme),
    (Word::Platform, RAPL_DISABLED, SnpProtection::RaplDisabled),
    (Word::Platform, CIPHERTEXT_HIDING, SnpProtection::CiphertextHiding),
    (Word::Platform, IOMMU_WRITE_SAFE, SnpProtection::IommuWriteSafe),
    (Word::Policy, POLICY_SINGLE_SOCKET, SnpProtection::SingleSocket),
    (Word::Policy, POLICY_AES_XTS, SnpProtection::AesXts),
    (Word::Policy, POLICY_PAGE_SWAP_DISABLED, SnpProtection::PageSwapDisabled),
];

enum Word {
    Platform,
    Policy,
}

/// What protects a guest with this policy on a platform with this PLATFORM_INFO.
///
/// # Errors
/// [`Rejection::Untrusted`] where the guest runs on a platform that its policy forbids, on which the firmware starts
/// none.
pub(super) fn read(policy: u64, platform: u64) -> Result<BTreeSet<SnpProtection>, Rejection> {
    let contradicts = (!has(policy, POLICY_SMT) && has(platform, SMT))
        || (has(policy, POLICY_RAPL_DISABLED) && !has(platform, RAPL_DISABLED))
        || (has(policy, POLICY_CIPHERTEXT_HIDING) && !has(platform, CIPHERTEXT_HIDING));
    if contradicts {
        return Err(Rejection::Untrusted("PLATFORM_INFO is of a platform that the guest's policy forbids"));
    }
    let found = PROTECTIONS.into_iter().filter_map(|(word, bit, protection)| {
        let word = match word {
            Word::Platform => platform,
            Word::Policy => policy,
        };
        has(word, bit).then_some(protection)
    });
    Ok(found.collect())
}

/// Bits of PLATFORM_INFO whose meaning is not known here: an entry permits them, or they are refused, since a meaning given
/// to them later must not pass unseen.
pub(super) const fn unknown(platform: u64) -> u64 {
    platform & !PLATFORM_KNOWN
}

/// Whether devices can enter the trust of guests here (SEV-TIO).
pub(super) fn has_trusted_io(platform: u64) -> bool {
    has(platform, TRUSTED_IO)
}

fn has(word: u64, bit: u32) -> bool {
    word.checked_shr(bit).unwrap_or_default() & 1 != 0
}
