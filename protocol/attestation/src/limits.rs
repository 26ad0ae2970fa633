//! Every bound of this crate. Values from outside are held against them before anything is allocated.

/// Largest report of any platform: an SNP report has 1184 bytes, TDX quotes and Nitro documents about 5 KiB.
pub const REPORT_BYTES_MAX: usize = 16 * 1024;
/// Most certificates that evidence carries: an SNP chain has three, and the collateral of simulated TDX seven parts.
pub const CERTIFICATES_MAX: usize = 8;
/// Largest certificate in bytes; AMD's have about 1.7 KiB.
pub const CERTIFICATE_BYTES_MAX: usize = 4 * 1024;
/// Largest encoded [`crate::Evidence`].
pub const EVIDENCE_BYTES_MAX: usize = 48 * 1024;
/// Largest encoded [`crate::EvidenceMessage`]. A peer that is not yet verified may send 64 KiB in all: this
/// leaves room for the confirm and close frames beside it.
pub const MESSAGE_BYTES_MAX: usize = 56 * 1024;
/// Longest pod identity: three names of at most 253 bytes and two separators.
pub const POD_IDENTITY_BYTES_MAX: usize = 3 * 253 + 2;
/// Largest [`crate::TrustConfiguration`]: header, two names of at most 253 bytes, and sixteen keys.
pub const TRUST_CONFIGURATION_BYTES_MAX: usize = 6 + 2 * (4 + 253) + 4 + 8 + 2 + 16 * 32;
/// Names in a [`crate::StatedWorkload`], as Kubernetes bounds them.
pub const SERVICE_ACCOUNT_BYTES_MAX: usize = 253;
pub const CONTAINER_NAME_BYTES_MAX: usize = 63;
/// Most containers that a [`crate::StatedWorkload`] names, init and ephemeral ones among them.
pub const CONTAINERS_MAX: usize = 64;
/// Largest encoded [`crate::StatedWorkload`].
pub const WORKLOAD_BYTES_MAX: usize =
    1 + 4 + SERVICE_ACCOUNT_BYTES_MAX + 1 + CONTAINERS_MAX * (4 + CONTAINER_NAME_BYTES_MAX + 32);
/// Most handshakes that one quote serves.
pub const LEAVES_MAX: u32 = 1 << PATH_DEPTH_MAX;
/// Longest Merkle path, in nodes.
pub const PATH_DEPTH_MAX: usize = 12;
/// Most signing keys of SEV-SNP that a [`crate::ChainCache`] knows, about 300 bytes each.
pub const CHAINS_MAX: usize = 256;
/// Largest certificate revocation list in bytes; AMD's have under 1 KiB.
pub const REVOCATION_LIST_BYTES_MAX: usize = 64 * 1024;

/// The statement of a pinned key: public key, REPORT_DATA, signature.
pub const KEY_REPORT_BYTES: usize = 32 + 64 + 64;
/// Payload of a Nitro document (AWS's specification, as the two below).
pub const NITRO_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
pub const NITRO_CERTIFICATE_BYTES_MAX: usize = 1024;
/// `public_key`, `user_data` and `nonce` of a Nitro document, each. AWS's text has two bounds for the last two: this one,
/// which the user guide repeats, and 512 (aws-nitro-enclaves-nsm-api, issue 52); the hypervisor holds neither.
pub const NITRO_DATA_BYTES_MAX: usize = 1024;
/// Issuers in a Nitro document, the root among them. AWS sends four; a path has at most six below its root in webpki.
pub const NITRO_BUNDLE_MAX: usize = 7;
/// Name of an enclave; AWS's have 39 bytes.
pub const NITRO_MODULE_ID_BYTES_MAX: usize = 256;
/// TDX collateral in JSON; Intel's has about 24 KiB.
pub const TDX_COLLATERAL_BYTES_MAX: usize = 256 * 1024;
/// TCB info or QE identity; Intel's have up to 6 KiB.
pub const STATEMENT_BYTES_MAX: usize = 64 * 1024;
/// Exact signed bytes of a bundle of collateral. With its envelope in base64 it still fits a ConfigMap, which has at
/// most 1 MiB.
pub const BUNDLE_BYTES_MAX: usize = 740_000;
/// A bundle with its signatures.
pub const BUNDLE_FILE_BYTES_MAX: usize = 1024 * 1024;
/// Pieces of one bundle.
pub const BUNDLE_PIECES_MAX: usize = 1024;
/// Signatures on one bundle, whether they count or not.
pub const BUNDLE_SIGNATURES_MAX: usize = 16;
/// How far ahead of the clock a bundle may have been issued, by an owner whose clock is wrong.
pub const BUNDLE_AHEAD_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Chips whose certificates are held.
pub const VCEKS_MAX: usize = 512;
/// Families of Intel's processors whose TCB info is held.
pub const FAMILIES_MAX: usize = 64;
/// Pieces with dates of a vendor's that are held at most: lists of three roots of AMD's, of Intel's root and of its two
/// authorities, one QE identity, and the TCB info of every family.
pub const RECORD_PIECES_MAX: usize = 7 + FAMILIES_MAX;
/// Record of what is held, in JSON; as many pieces as there can be fit, however large.
pub const RECORD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How far the clock of a prover may be ahead of the verifier's.
pub const CLOCK_SKEW_SECONDS_MAX: u64 = 60;

const _: () = {
    // Tag, report with its length, count, and one length per certificate.
    let largest_framing = 1 + 4 + 1 + 4 * CERTIFICATES_MAX;
    assert!(REPORT_BYTES_MAX + 3 * CERTIFICATE_BYTES_MAX + largest_framing <= EVIDENCE_BYTES_MAX);
    let largest_header = 4 + POD_IDENTITY_BYTES_MAX + 32 + 4 + 4 + 1 + 32 * PATH_DEPTH_MAX + 4;
    assert!(EVIDENCE_BYTES_MAX + largest_header + 4 + WORKLOAD_BYTES_MAX <= MESSAGE_BYTES_MAX);
    assert!(CONTAINERS_MAX <= u8::MAX as usize);
    assert!(MESSAGE_BYTES_MAX < 64 * 1024);
    // Base64, sixteen signatures of 200 bytes, and the words around them.
    assert!(BUNDLE_BYTES_MAX.div_ceil(3) * 4 + BUNDLE_SIGNATURES_MAX * 200 + 100 <= BUNDLE_FILE_BYTES_MAX);
    // Statements and lists in base64, and around each its signer and the names of members. Text doubles where it has quotes.
    assert!(RECORD_PIECES_MAX * (STATEMENT_BYTES_MAX + CERTIFICATE_BYTES_MAX) * 3 / 2 <= RECORD_BYTES_MAX);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out: other tests say what happens at a bound, in terms of the bound itself.
    #[test]
    fn bounds_are_what_they_are_told_to_be() {
        for (bound, told) in [
            (REPORT_BYTES_MAX, 16_384),
            (CERTIFICATES_MAX, 8),
            (CERTIFICATE_BYTES_MAX, 4_096),
            (EVIDENCE_BYTES_MAX, 49_152),
            (MESSAGE_BYTES_MAX, 57_344),
            (POD_IDENTITY_BYTES_MAX, 761),
            (TRUST_CONFIGURATION_BYTES_MAX, 1_046),
            (SERVICE_ACCOUNT_BYTES_MAX, 253),
            (CONTAINER_NAME_BYTES_MAX, 63),
            (CONTAINERS_MAX, 64),
            (WORKLOAD_BYTES_MAX, 6_595),
            (LEAVES_MAX as usize, 4_096),
            (PATH_DEPTH_MAX, 12),
            (CHAINS_MAX, 256),
            (REVOCATION_LIST_BYTES_MAX, 65_536),
            (KEY_REPORT_BYTES, 160),
            (NITRO_PAYLOAD_BYTES_MAX, 16_384),
            (NITRO_CERTIFICATE_BYTES_MAX, 1_024),
            (NITRO_DATA_BYTES_MAX, 1_024),
            (NITRO_BUNDLE_MAX, 7),
            (NITRO_MODULE_ID_BYTES_MAX, 256),
            (TDX_COLLATERAL_BYTES_MAX, 262_144),
            (STATEMENT_BYTES_MAX, 65_536),
            (BUNDLE_BYTES_MAX, 740_000),
            (BUNDLE_FILE_BYTES_MAX, 1_048_576),
            (BUNDLE_PIECES_MAX, 1_024),
            (BUNDLE_SIGNATURES_MAX, 16),
            (VCEKS_MAX, 512),
            (FAMILIES_MAX, 64),
            (RECORD_PIECES_MAX, 71),
            (RECORD_BYTES_MAX, 8_388_608),
        ] {
            assert_eq!(bound, told);
        }
        assert_eq!((BUNDLE_AHEAD_SECONDS_MAX, CLOCK_SKEW_SECONDS_MAX), (86_400, 60));
    }
}
