//! Every bound of this crate. A document is refused before anything of the refused size is allocated.

/// Exact signed bytes of one document.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Document and rotations of one chain together, decoded.
pub const CHAIN_BYTES_MAX: usize = 2 << 20;
/// Authority changes between the roots and the document.
pub const ROTATIONS_MAX: usize = 64;
/// Signatures on one document, whether they count or not.
pub const SIGNATURES_MAX: usize = 64;
/// Signatures of one key that do not verify before the rest of them is not looked at: each costs a pass over the
/// document, which may be a megabyte and anybody's.
pub const INVALID_SIGNATURES_MAX: usize = 4;
/// Owner keys of one set of authorities; as many as TrustPolicy carries.
pub const AUTHORITY_KEYS_MAX: usize = 16;
/// Nesting of JSON objects and lists; the deepest known field lies at 6.
pub const JSON_DEPTH_MAX: usize = 12;
/// Members of one JSON list or object, before the tighter bounds of each field apply.
pub const JSON_MEMBERS_MAX: usize = 4096;
/// Largest integer that RFC 8785 (IEEE 754 doubles) writes exactly: 2^53 - 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

pub const PEERS_MAX: usize = 1024;
/// Ways in which one Peer may prove itself.
pub const ENTRIES_MAX: usize = 64;
/// Measurements, HOST_DATA values or public keys of one entry.
pub const VALUES_MAX: usize = 256;
pub const CHIP_IDS_MAX: usize = 1024;
pub const IMAGES_MAX: usize = 64;
/// How old a Nitro document may be in a handshake unless the entry says otherwise.
pub const NITRO_AGE_SECONDS_DEFAULT: u64 = 300;
/// The certificate under a Nitro document lives three hours.
pub const NITRO_AGE_SECONDS_MAX: u64 = 3 * 60 * 60;
/// A cloud provider's id in its VLEK certificates.
pub const PROVIDER_BYTES_MAX: usize = 127;
/// A service account or image reference.
pub const TEXT_BYTES_MAX: usize = 512;
pub const SESSIONS_MAX: usize = 4096;
/// Most senders that a session may be said to need: as many replicas as a sidecar is told of.
pub const SENDERS_MIN_MAX: u64 = 4096;
/// Receiving Peers of one session rule.
pub const RECEIVERS_MAX: usize = 256;
/// The first bit of PLATFORM_INFO that has no name (AMD 56860, table 24).
pub const SNP_PLATFORM_BIT_MIN: u64 = 8;
/// How long collateral may be used after its end, where owners permit it at all.
pub const COLLATERAL_GRACE_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;
/// Most that collateral may be old, where the document says: from a day to two years. AMD issues its lists for a year.
pub const COLLATERAL_AGE_SECONDS_MIN: u64 = 24 * 60 * 60;
pub const COLLATERAL_AGE_SECONDS_MAX: u64 = 730 * 24 * 60 * 60;
/// Ports that one session rule permits to forward to.
pub const FORWARD_TARGETS_MAX: usize = 64;
pub const AUDITOR_KEYS_MAX: usize = 64;
/// Lint findings reported at once.
pub const FINDINGS_MAX: usize = 16;

/// How long a new document is in force unless its author says otherwise: seven days.
pub const DEFAULT_LIFETIME_SECONDS: u64 = 7 * 24 * 60 * 60;

/// How long a connection may live where the document does not say: a day.
pub const SESSION_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// Least that a document may say: a connection has to be worth its handshake.
pub const SESSION_SECONDS_MIN: u64 = 10;
/// Most that a document may say: thirty days.
pub const SESSION_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;
/// How long a connection may live on one attestation where the document does not say, and most that it may say: a day.
pub const REATTEST_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Least that a document may say: platforms make few reports in a second.
pub const REATTEST_SECONDS_MIN: u64 = 10;

const _: () = assert!(DOCUMENT_BYTES_MAX <= CHAIN_BYTES_MAX);
const _: () = assert!(AUTHORITY_KEYS_MAX <= SIGNATURES_MAX);
const _: () = assert!(SESSIONS_MAX <= JSON_MEMBERS_MAX && PEERS_MAX <= JSON_MEMBERS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out: other tests say what happens at a bound, in terms of the bound itself.
    #[test]
    fn bounds_are_what_they_are_told_to_be() {
        assert_eq!((DOCUMENT_BYTES_MAX, CHAIN_BYTES_MAX), (1_048_576, 2_097_152));
        assert_eq!(INTEGER_MAX, 9_007_199_254_740_991);
        assert_eq!((COLLATERAL_AGE_SECONDS_MIN, COLLATERAL_AGE_SECONDS_MAX), (86_400, 63_072_000));
        assert_eq!((NITRO_AGE_SECONDS_MAX, COLLATERAL_GRACE_SECONDS_MAX), (10_800, 604_800));
        assert_eq!((SESSION_SECONDS_DEFAULT, SESSION_SECONDS_MAX), (86_400, 2_592_000));
        assert_eq!((SENDERS_MIN_MAX, SNP_PLATFORM_BIT_MIN), (4_096, 8));
        assert_eq!((REATTEST_SECONDS_MIN, REATTEST_SECONDS_MAX), (10, 86_400));
    }
}
