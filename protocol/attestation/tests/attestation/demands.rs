//! What an entry for SEV-SNP may insist on or permit beyond the values that every guest has.

use sealane_attestation::{Degradation, Permission, Rejection, VerifiedPeer};
use sealane_policy::{Entry, Floors, Pinnable, SnpAbi, SnpFirmware, SnpIdentity, SnpReference};
use sealane_simulated::Material;
use sealane_simulated::forge::{Kind, REPORT_BYTES};
use sealane_types::{GuestLabel, KeyDigest, MitigationVector, Product, Reason, SnpProtection};

use crate::support::{
    AUTHORITY, MATERIAL, Prover, edited, entry, inspected, judged, policy, recipe, said, snp,
};

type Report = [u8; REPORT_BYTES];

// Words of a report.
const POLICY: usize = 0x08;
const FAMILY_ID: usize = 0x10;
const IMAGE_ID: usize = 0x20;
const PLATFORM_INFO: usize = 0x40;
const KEY_WORD: usize = 0x48;
const ID_KEY: usize = 0xe0;
const AUTHOR_KEY: usize = 0x110;
const FIRMWARE: usize = 0x1e8;
const COMMITTED: usize = 0x1ec;
const LAUNCH_MITIGATIONS: usize = 0x1f8;
const CURRENT_MITIGATIONS: usize = 0x200;

fn set(report: &mut Report, word: usize, bit: usize) {
    report[word + bit / 8] |= 1 << (bit % 8);
}

fn clear(report: &mut Report, word: usize, bit: usize) {
    report[word + bit / 8] &= !(1 << (bit % 8));
}

/// What the verifier says of a report, which `state` changed, under an entry, which `demand` changed.
fn outcome(
    material: &Material,
    complete: bool,
    state: impl FnOnce(&mut Report),
    demand: impl FnOnce(&mut SnpReference),
) -> Result<VerifiedPeer, Rejection> {
    let mut entry: Entry = entry(material);
    demand(snp(&mut entry));
    let policy = policy(vec![entry], Floors { complete, ..Floors::default() });
    let prover = Prover { material: material.clone(), ..Prover::honest(&policy) };
    judged(&prover.send_edited(state), &policy)
}

fn verdict(state: impl FnOnce(&mut Report), demand: impl FnOnce(&mut SnpReference)) -> Result<(), Rejection> {
    outcome(&MATERIAL, true, state, demand).map(|_| ())
}

/// Where each protection stands in a report.
const PROTECTIONS: [(SnpProtection, usize, usize); 9] = [
    (SnpProtection::Tsme, PLATFORM_INFO, 1),
    (SnpProtection::Ecc, PLATFORM_INFO, 2),
    (SnpProtection::RaplDisabled, PLATFORM_INFO, 3),
    (SnpProtection::CiphertextHiding, PLATFORM_INFO, 4),
    (SnpProtection::AliasCheck, PLATFORM_INFO, 5),
    (SnpProtection::IommuWriteSafe, PLATFORM_INFO, 6),
    (SnpProtection::SingleSocket, POLICY, 20),
    (SnpProtection::AesXts, POLICY, 22),
    (SnpProtection::PageSwapDisabled, POLICY, 25),
];

#[test]
fn a_protection_that_the_policy_requires_is_shown() {
    assert_eq!(PROTECTIONS.len(), SnpProtection::ALL.len());
    for (protection, word, bit) in PROTECTIONS {
        let require = |reference: &mut SnpReference| reference.protections = [protection].into();
        assert_eq!(verdict(|report| set(report, word, bit), require), Ok(()), "{protection}");
        let refused = verdict(|report| clear(report, word, bit), require).unwrap_err();
        assert_eq!(refused, Rejection::Protection(protection));
        assert_eq!(refused.reason(), Reason::PermissionNotAllowed);
        // Nothing but its own bit shows it.
        let others = |report: &mut Report| {
            for (_, word, bit) in PROTECTIONS {
                set(report, word, bit);
            }
            clear(report, word, bit);
        };
        assert_eq!(verdict(others, require), Err(Rejection::Protection(protection)));
    }
}

#[test]
fn unknown_bits_of_the_platform_are_refused_unless_the_owners_know_them() {
    const REFUSED: Rejection = Rejection::Malformed("reserved bits of PLATFORM_INFO");
    for bit in 8..64 {
        let state = |report: &mut Report| set(report, PLATFORM_INFO, bit);
        assert_eq!(verdict(state, |_| {}), Err(REFUSED), "{bit}");
        let permit =
            |mask: u64| move |reference: &mut SnpReference| reference.permissions.platform_bits = mask;
        assert_eq!(verdict(state, permit(1 << bit)), Ok(()), "{bit}");
        assert_eq!(verdict(state, permit(!0xff & !(1 << bit))), Err(REFUSED), "{bit}: another's permission");
        let claims = inspected(&edited(state)).unwrap();
        assert_eq!(said(&claims).needs().unwrap().platform_bits, 1 << bit);
    }
}

#[test]
fn a_guest_does_not_run_where_its_policy_forbids() {
    let contradictions: [fn(&mut Report); 3] = [
        |report| set(report, PLATFORM_INFO, 0),
        |report| set(report, POLICY, 23),
        |report| set(report, POLICY, 24),
    ];
    for state in contradictions {
        let refused = inspected(&edited(state)).unwrap_err();
        assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
    }
    let consistent = edited(|report| {
        for (word, bit) in [(PLATFORM_INFO, 0), (POLICY, 16), (PLATFORM_INFO, 3), (POLICY, 23)] {
            set(report, word, bit);
        }
        for (word, bit) in [(PLATFORM_INFO, 4), (POLICY, 24)] {
            set(report, word, bit);
        }
    });
    let claims = inspected(&consistent).unwrap();
    assert!(said(&claims).needs().unwrap().smt);
}

#[test]
fn cxl_memory_and_trusted_devices_need_permission() {
    let cxl = |report: &mut Report| set(report, POLICY, 21);
    assert_eq!(verdict(cxl, |_| {}), Err(Rejection::Permission(Permission::Cxl)));
    assert_eq!(verdict(cxl, |reference| reference.permissions.cxl = true), Ok(()));
    let tio = |report: &mut Report| set(report, PLATFORM_INFO, 7);
    assert_eq!(verdict(tio, |_| {}), Err(Rejection::Permission(Permission::Tio)));
    assert_eq!(verdict(tio, |reference| reference.permissions.tio = true), Ok(()));
}

#[test]
fn evidence_of_milan_needs_permission() {
    let material = AUTHORITY.issue(&recipe(Product::Milan, Kind::Vcek)).unwrap();
    let verdict = |demand: fn(&mut SnpReference)| outcome(&material, true, |_| {}, demand).map(|_| ());
    // An entry that is open for every family, or pins the chip, permits no Milan by that.
    for demand in [(|reference| reference.products = [].into()) as fn(&mut SnpReference), |reference| {
        (reference.products, reference.chip_ids) = ([].into(), [].into())
    }] {
        let refused = verdict(demand).unwrap_err();
        assert_eq!(refused, Rejection::Permission(Permission::Milan));
        assert_eq!(refused.reason(), Reason::PermissionNotAllowed);
    }
    assert_eq!(verdict(|reference| reference.permissions.milan = true), Ok(()));
}

/// A report of a guest with an ID block.
fn identified(report: &mut Report) {
    report[0x04] = 7;
    report[FAMILY_ID] = 1;
    report[IMAGE_ID] = 2;
    report[ID_KEY..ID_KEY + 48].fill(3);
    report[AUTHOR_KEY..AUTHOR_KEY + 48].fill(4);
    report[KEY_WORD] |= 1;
}

fn label(first: u8) -> GuestLabel {
    let mut bytes = [0; 16];
    bytes[0] = first;
    GuestLabel::new(bytes)
}

fn identity() -> SnpIdentity {
    SnpIdentity {
        id_keys: [KeyDigest::new([3; 48])].into(),
        author_keys: [KeyDigest::new([4; 48])].into(),
        family_ids: [label(1)].into(),
        image_ids: [label(2)].into(),
        min_guest_svn: Some(7),
    }
}

#[test]
fn a_pinned_guest_identity_is_the_one_that_was_signed() {
    assert_eq!(verdict(identified, |reference| reference.identity = identity()), Ok(()));
    type Case = (fn(&mut SnpIdentity), Rejection);
    let cases: [Case; 5] = [
        (|identity| identity.id_keys = [KeyDigest::new([9; 48])].into(), Rejection::GuestKey),
        (|identity| identity.author_keys = [KeyDigest::new([9; 48])].into(), Rejection::GuestKey),
        (|identity| identity.family_ids = [label(9)].into(), Rejection::GuestLabel),
        (|identity| identity.image_ids = [label(9)].into(), Rejection::GuestLabel),
        (|identity| identity.min_guest_svn = Some(8), Rejection::GuestSvnTooLow { found: 7 }),
    ];
    for (change, expected) in cases {
        let mut other = identity();
        change(&mut other);
        assert_eq!(verdict(identified, |reference| reference.identity = other), Err(expected));
    }
}

#[test]
fn a_guest_without_an_id_block_fits_no_pinned_key() {
    for keys in [
        SnpIdentity { id_keys: [KeyDigest::new([0; 48])].into(), ..SnpIdentity::default() },
        SnpIdentity { author_keys: [KeyDigest::new([0; 48])].into(), ..SnpIdentity::default() },
    ] {
        assert_eq!(verdict(|_| {}, |reference| reference.identity = keys), Err(Rejection::GuestKey));
    }
}

#[test]
fn the_author_s_digest_and_its_bit_agree() {
    for state in [(|report| report[KEY_WORD] |= 1) as fn(&mut Report), |report| report[AUTHOR_KEY] = 1] {
        let refused = inspected(&edited(state)).unwrap_err();
        assert_eq!(refused.reason(), Reason::EvidenceMalformed, "{refused}");
    }
}

#[test]
fn mitigations_were_there_at_launch_and_still_are() {
    let fifth = |launch: u8, current: u8| {
        move |report: &mut Report| {
            report[0] = 5;
            (report[LAUNCH_MITIGATIONS], report[CURRENT_MITIGATIONS]) = (launch, current);
        }
    };
    let require =
        |reference: &mut SnpReference| reference.mitigations = Some(MitigationVector::from_bits(0b101));
    assert_eq!(verdict(fifth(0b101, 0b111), require), Ok(()));
    for (launch, current) in [(0b100, 0b111), (0b111, 0b001), (0, 0)] {
        assert_eq!(verdict(fifth(launch, current), require), Err(Rejection::Mitigations));
    }
    // An older report does not say.
    assert_eq!(said(&inspected(&edited(|_| {})).unwrap()).mitigations(), None);
    assert_eq!(verdict(|_| {}, require), Err(Rejection::Mitigations));
    assert_eq!(Rejection::Mitigations.reason(), Reason::TcbTooLow);
}

#[test]
fn firmware_is_at_least_as_new_as_demanded_and_cannot_go_back_below() {
    let firmware = |major, minor, build| SnpFirmware { major, minor, build };
    let with = |current: SnpFirmware, committed: SnpFirmware| {
        let state = move |report: &mut Report| {
            for (word, SnpFirmware { major, minor, build }) in [(FIRMWARE, current), (COMMITTED, committed)] {
                report[word..word + 3].copy_from_slice(&[build, minor, major]);
            }
        };
        verdict(state, |entry| entry.min_firmware = Some(firmware(1, 55, 40)))
    };
    for accepted in [firmware(1, 55, 40), firmware(1, 55, 41), firmware(1, 56, 0), firmware(2, 0, 0)] {
        assert_eq!(with(accepted, accepted), Ok(()), "{accepted}");
    }
    let enough = firmware(1, 55, 40);
    for found in [firmware(1, 55, 39), firmware(1, 54, 255), firmware(0, 255, 255)] {
        let refused = Err(Rejection::FirmwareTooOld { found });
        assert_eq!(
            (with(found, found), with(enough, found), with(found, enough)),
            (refused, refused, refused)
        );
    }
    assert_eq!(Rejection::FirmwareTooOld { found: enough }.reason(), Reason::TcbTooLow);
}

#[test]
fn a_guest_demands_as_much_of_its_firmware_as_the_policy_does() {
    let with = |major: u8, minor: u8| {
        let state = move |report: &mut Report| report[POLICY..POLICY + 2].copy_from_slice(&[minor, major]);
        verdict(state, |entry| entry.min_guest_abi = Some(SnpAbi { major: 1, minor: 51 }))
    };
    assert_eq!([with(1, 51), with(1, 52), with(2, 0)], [Ok(()); 3]);
    for (major, minor) in [(1, 50), (0, 255)] {
        let found = SnpAbi { major, minor };
        assert_eq!(with(major, minor), Err(Rejection::GuestAbiTooLow { found }));
    }
}

#[test]
fn a_provider_s_key_is_the_pinned_provider_s() {
    const PROVIDER: &str = "simulated.example";
    let material = AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vlek)).unwrap();
    let state = |report: &mut Report| {
        report[KEY_WORD] = 1 << 2;
        report[0x1a0..0x1e0].fill(0);
    };
    let under = |complete: bool, providers: &[&str]| {
        outcome(&material, complete, state, |reference| {
            reference.chip_ids.clear();
            reference.permissions.vlek = true;
            reference.vlek_providers = providers.iter().map(|provider| (*provider).to_owned()).collect();
        })
    };
    let pinned = under(true, &["other.example", PROVIDER]).unwrap();
    assert_eq!(pinned.degradations(), []);
    assert_eq!(said(pinned.claims()).provider(), Some(PROVIDER));
    let refused = under(false, &["other.example"]).unwrap_err();
    assert_eq!((refused, refused.reason()), (Rejection::Provider, Reason::ProductMismatch));
    // Any provider will do, which is shown, and refused where nothing may be left open.
    let open = Degradation::ReferenceValueMissing(Pinnable::VlekProviders);
    assert_eq!(under(false, &[]).unwrap().degradations(), [open]);
    assert_eq!(under(true, &[]), Err(Rejection::ReferenceValueMissing(Pinnable::VlekProviders)));
    // Which concerns evidence that a provider's key signed, not the chip's own.
    let own = outcome(&MATERIAL, true, |_| {}, |reference| reference.permissions.vlek = true);
    assert_eq!(own.unwrap().degradations(), []);
}

/// What evidence needs is what it is refused without and accepted with.
#[test]
fn the_permissions_that_evidence_needs_suffice() {
    let states: [fn(&mut Report); 7] = [
        |_| {},
        |report| set(report, POLICY, 16),
        |report| set(report, POLICY, 18),
        |report| set(report, POLICY, 19),
        |report| set(report, POLICY, 21),
        |report| set(report, PLATFORM_INFO, 7),
        |report| report[0x30] = 2,
    ];
    for (index, state) in states.into_iter().enumerate() {
        let claims = inspected(&edited(state)).unwrap();
        assert_eq!(
            (said(&claims).debug(), said(&claims).vmpl()),
            (index == 3, if index == 6 { 2 } else { 0 })
        );
        let needed = said(&claims).needs().unwrap();
        said(&claims).permitted(&needed).unwrap();
        assert_eq!(said(&claims).permitted(&Default::default()).is_ok(), index == 0);
    }
    let claims = inspected(&edited(|report| report[0x31] = 1)).unwrap();
    assert_eq!(said(&claims).needs(), None);
}
