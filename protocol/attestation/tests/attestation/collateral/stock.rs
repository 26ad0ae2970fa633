//! What is taken, and what gives way to what.

use sealane_attestation::{
    PckAuthority, Piece, PieceId, Rejection, SignedStatement, Stock, Taken, VendorRoots,
};
use sealane_fixtures::keys::OTHER_AUTHORITY;
use sealane_simulated::tdx;
use sealane_types::{Product, Reason};

use super::support::{
    AMD, CHIP, INTEL, PLATFORM, ROOTS, amd_recipe, dates, holding, intel, intel_recipe, judged, now, pieces,
    policy, put, snp_list, snp_message, tdx_message,
};

fn vcek() -> Piece {
    let [vcek, ..] = CHIP.certificates();
    Piece::Vcek(vcek.to_vec())
}

#[test]
fn every_piece_says_what_it_is() {
    let stock = holding([vec![snp_list(60, false), vcek()], pieces(&PLATFORM)].concat());
    let fmspc = stock.pieces().iter().find_map(|piece| match piece.id() {
        PieceId::TcbInfo(fmspc) => Some(fmspc),
        _ => None,
    });
    for id in [
        PieceId::SnpList(Product::Genoa),
        PieceId::QeIdentity,
        PieceId::TdxRootList,
        PieceId::TdxList(PckAuthority::Platform),
        PieceId::TcbInfo(fmspc.unwrap()),
    ] {
        assert!(stock.find(&id).is_some_and(|piece| piece.term().until > now()), "{id}");
    }
    assert_eq!(stock.pieces().len(), 6);
}

#[test]
fn evidence_of_hardware_is_accepted_with_what_is_held_and_names_what_it_needs() {
    let policy = policy(0);
    let stock = holding([vec![snp_list(60, false)], pieces(&PLATFORM)].concat());
    let (collateral, problems) = stock.assemble(5);
    assert!(problems.is_empty(), "{problems:?}");
    let empty = Stock::new(ROOTS.clone()).assemble(0).0;
    for message in [snp_message(&policy), tdx_message(&policy)] {
        let verified = judged(&message, &policy, &collateral, now()).unwrap();
        assert_eq!(verified.edition(), 5);
        let missing = judged(&message, &policy, &empty, now()).unwrap_err();
        assert_eq!(missing.reason(), Reason::CollateralMissing, "{missing}");
        let needed = ROOTS.needs(&message.evidence);
        assert!(!needed.is_empty() && needed.iter().all(|id| stock.find(id).is_some()), "{needed:?}");
    }
    // A stranger's word makes nobody look for anything.
    assert_eq!(VendorRoots::pinned().needs(&tdx_message(&policy).evidence), []);
}

#[test]
fn what_another_key_signed_is_not_taken() {
    let amd = &OTHER_AUTHORITY;
    let list = Piece::SnpList(amd.revocation_list(&amd_recipe(), dates(-1, 3600), false).unwrap());
    let intel = tdx::forge::Authority::generate().unwrap().issue(&intel_recipe()).unwrap();
    let chip = amd.issue(&amd_recipe()).unwrap();
    let mut stock = Stock::new(ROOTS.clone());
    for piece in [vec![list, Piece::Vcek(chip.certificates()[0].to_vec())], pieces(&intel)].concat() {
        let outcome = put(&mut stock, piece.clone());
        assert!(outcome.is_err(), "{piece:?}: {outcome:?}");
    }
    assert!(stock.pieces().is_empty());
}

#[test]
fn a_changed_bit_is_not_taken() {
    let spoil = |bytes: &[u8], at: usize| {
        let mut spoiled = bytes.to_vec();
        spoiled[at] ^= 1;
        spoiled
    };
    let all = [vec![snp_list(60, false), vcek()], pieces(&PLATFORM)].concat();
    let mut stock = Stock::new(ROOTS.clone());
    for piece in all {
        let spoiled = |at_from: fn(usize) -> usize| match &piece {
            Piece::SnpList(list) => Piece::SnpList(spoil(list, at_from(list.len()))),
            Piece::Vcek(vcek) => Piece::Vcek(spoil(vcek, at_from(vcek.len()))),
            Piece::TdxRootList(list) => Piece::TdxRootList(spoil(list, at_from(list.len()))),
            Piece::TdxList { list, authority } => {
                Piece::TdxList { list: spoil(list, at_from(list.len())), authority: authority.clone() }
            }
            Piece::TcbInfo(SignedStatement { text, signature, signer }) => Piece::TcbInfo(SignedStatement {
                text: text.replacen("2026-01-01", "2026-01-02", 1),
                signature: signature.clone(),
                signer: signer.clone(),
            }),
            Piece::QeIdentity(SignedStatement { text, signature, signer }) => {
                Piece::QeIdentity(SignedStatement {
                    text: text.clone(),
                    signature: spoil(signature, at_from(signature.len())),
                    signer: signer.clone(),
                })
            }
        };
        for at in [|length| length - 1, |length| length / 2] {
            let outcome = put(&mut stock, spoiled(at));
            assert!(outcome.is_err(), "{piece:?}: {outcome:?}");
        }
        put(&mut stock, piece).unwrap();
    }
}

#[test]
fn an_older_piece_never_takes_the_place_of_a_newer_one() {
    let [old, middle, new] = [300, 200, 100].map(|age| snp_list(age, false));
    let mut stock = holding([middle.clone()]);
    assert_eq!(put(&mut stock, middle.clone()), Ok(Taken::Known));
    assert_eq!(put(&mut stock, old), Ok(Taken::Older));
    assert_eq!(stock.pieces()[0].piece(), &middle);
    assert_eq!(put(&mut stock, new.clone()), Ok(Taken::New));
    assert_eq!(stock.pieces()[0].piece(), &new);
    assert_eq!(stock.pieces().len(), 1);
}

#[test]
fn the_higher_number_is_kept_for_as_long_as_it_holds() {
    let issued = |age: i64, until: i64, number| {
        let statements = dates(-age, until);
        intel(&tdx::forge::Recipe { info: statements, identity: statements, ..intel_recipe() }, number)
    };
    let held = |stock: &Stock| {
        let numbers = stock.pieces().iter().filter_map(sealane_attestation::VerifiedPiece::evaluation);
        numbers.collect::<Vec<_>>()
    };
    let mut stock = holding(issued(200, 3600, 21));
    for piece in issued(100, 3600, 20) {
        put(&mut stock, piece).unwrap();
    }
    assert_eq!(held(&stock), [21, 21], "the early series has the higher number");
    let over = issued(200, -100, 21);
    let mut stock = holding(over.clone());
    for piece in issued(50, 3600, 20) {
        put(&mut stock, piece).unwrap();
    }
    assert_eq!(held(&stock), [20, 20], "what is over gives way");
    let statements =
        over.into_iter().filter(|piece| matches!(piece, Piece::TcbInfo(_) | Piece::QeIdentity(_)));
    for piece in statements {
        assert_eq!(put(&mut stock, piece), Ok(Taken::Older), "and does not come back");
    }
    assert_eq!(held(&stock), [20, 20]);
}

#[test]
fn a_signer_that_a_newer_list_revokes_takes_its_statements_along() {
    let policy = policy(0);
    let message = tdx_message(&policy);
    let mut stock = holding(pieces(&PLATFORM));
    let (collateral, _) = stock.assemble(1);
    judged(&message, &policy, &collateral, now()).unwrap();
    let recipe = tdx::forge::Recipe {
        revoked: vec![tdx::forge::Place::Signer],
        root_list: dates(-10, 3600),
        ..intel_recipe()
    };
    let newer = pieces(&INTEL.issue(&recipe).unwrap());
    let list = newer.into_iter().find(|piece| matches!(piece, Piece::TdxRootList(_))).unwrap();
    assert_eq!(put(&mut stock, list), Ok(Taken::New));
    assert!(stock.pieces().iter().all(|piece| piece.evaluation().is_none()), "{:?}", stock.pieces());
    let refused = judged(&message, &policy, &stock.assemble(2).0, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing, "{refused}");
}

#[test]
fn statements_of_a_revoked_signer_keep_none_of_another_out() {
    let policy = policy(0);
    let is_statement = |piece: &Piece| matches!(piece, Piece::TcbInfo(_) | Piece::QeIdentity(_));
    let revoking = tdx::forge::Recipe { revoked: vec![tdx::forge::Place::Signer], ..intel_recipe() };
    // With the higher number, so that nothing but the list is in their way.
    let (revoked, mut others): (Vec<_>, Vec<_>) = intel(&revoking, 30).into_iter().partition(is_statement);
    others.retain(|piece| matches!(piece, Piece::TdxRootList(_) | Piece::TdxList { .. }));
    let successor = |place, certificate: &mut x509_cert::certificate::TbsCertificate| {
        if place == tdx::forge::Place::Signer {
            certificate.serial_number = x509_cert::serial_number::SerialNumber::new(&[9]).unwrap();
        }
    };
    let edits = tdx::forge::Edits { certificate: &successor, ..tdx::forge::Edits::default() };
    let good = pieces(&INTEL.issue_edited(&intel_recipe(), edits).unwrap());
    let good: Vec<_> = good.into_iter().filter(is_statement).collect();
    for pieces in [[revoked.clone(), others.clone()].concat(), [others, revoked].concat()] {
        let mut stock = Stock::new(ROOTS.clone());
        for piece in pieces {
            let outcome = put(&mut stock, piece.clone());
            let known = stock.find(&PieceId::TdxRootList).is_some() && is_statement(&piece);
            let expected = if known {
                Err(Rejection::Revoked("the signer of Intel's collateral"))
            } else {
                Ok(Taken::New)
            };
            assert_eq!(outcome, expected, "{piece:?}");
        }
        for piece in good.clone() {
            assert_eq!(put(&mut stock, piece), Ok(Taken::New));
        }
        let (collateral, problems) = stock.assemble(1);
        assert_eq!(problems, []);
        judged(&tdx_message(&policy), &policy, &collateral, now()).unwrap();
    }
}

#[test]
fn the_certificate_of_a_report_s_signer_is_found() {
    let policy = policy(0);
    let report = snp_message(&policy).evidence.report;
    let stock = holding([vcek()]);
    let [expected, ..] = CHIP.certificates();
    assert_eq!(stock.vcek(&report), Some(expected));
    let ids = sealane_attestation::vcek_ids(&report);
    assert!(matches!(stock.pieces()[0].id(), PieceId::Vcek(id) if ids == [id]), "{ids:?}");
    let another = |at: usize| {
        let mut other = report.clone();
        other[at] ^= 1;
        other
    };
    // Another chip, and another level of its firmware.
    for other in [another(0x1a0), another(0x180)] {
        assert_eq!(stock.vcek(&other), None);
    }
    // A key that is masked, a provider's, and a chip that hides its id.
    let nameless = [(0x48, vec![2, 0, 0, 0]), (0x48, vec![4, 0, 0, 0]), (0x1a0, vec![0; 64])];
    for (at, bytes) in nameless {
        let hidden = [&report[..at], &bytes, &report[at + bytes.len()..]].concat();
        assert!(sealane_attestation::vcek_ids(&hidden).is_empty(), "{at:#x} {bytes:?}");
    }
    assert!(sealane_attestation::vcek_ids(&report[..100]).is_empty());
}

/// Platforms with one package have an authority of their own, and a list of its.
#[test]
fn each_authority_has_its_own_list() {
    let policy = policy(0);
    let processor = |place, certificate: &mut x509_cert::certificate::TbsCertificate| {
        let name: x509_cert::name::Name = "CN=Intel SGX PCK Processor CA".parse().unwrap();
        match place {
            tdx::forge::Place::Authority => certificate.subject = name,
            tdx::forge::Place::Platform => certificate.issuer = name,
            _ => {}
        }
    };
    let list = |place, list: &mut x509_cert::crl::TbsCertList| {
        if place == tdx::forge::Place::Authority {
            list.issuer = "CN=Intel SGX PCK Processor CA".parse().unwrap();
        }
    };
    let edits = tdx::forge::Edits { certificate: &processor, list: &list, ..tdx::forge::Edits::default() };
    let single = INTEL.issue_edited(&intel_recipe(), edits).unwrap();
    let mut stock = holding(pieces(&PLATFORM));
    let list = pieces(&single).into_iter().find(|piece| matches!(piece, Piece::TdxList { .. })).unwrap();
    assert_eq!(put(&mut stock, list), Ok(Taken::New));
    for authority in PckAuthority::ALL {
        assert!(stock.find(&PieceId::TdxList(authority)).is_some(), "{authority}");
    }
    let (collateral, problems) = stock.assemble(1);
    assert_eq!((collateral.tdx().len(), problems), (2, vec![]));
    judged(&tdx_message(&policy), &policy, &collateral, now()).unwrap();
}

/// Strangers could ask for any family otherwise.
#[test]
fn a_quote_names_what_it_needs_only_under_the_pinned_root() {
    let honest = tdx_message(&policy(0)).evidence;
    assert_eq!(ROOTS.needs(&honest).len(), 4);
    let stranger = tdx::forge::Authority::generate().unwrap().issue(&intel_recipe()).unwrap();
    let chain = |chosen: [&tdx::Material; 3]| {
        let mut text = Vec::new();
        for (place, material) in chosen.into_iter().enumerate() {
            let platform = tdx::Platform::new(material.clone(), None).unwrap();
            let mut own = Vec::new();
            platform.quote_edited([0; 64], |draft| own.clone_from(&draft.chain)).unwrap();
            let begins = |window: &[u8]| window == b"-----BEGIN";
            let starts: Vec<_> = (0..own.len() - 10).filter(|at| begins(&own[*at..at + 10])).collect();
            let end = starts.get(place + 1).copied().unwrap_or(own.len());
            text.extend_from_slice(&own[starts[place]..end]);
        }
        let platform = tdx::Platform::new(PLATFORM.clone(), None).unwrap();
        let report = platform.quote_edited([0; 64], |draft| draft.chain = text).unwrap().report;
        ROOTS.needs(&sealane_attestation::Evidence { report, ..honest.clone() }).len()
    };
    assert_eq!(chain([&PLATFORM, &PLATFORM, &PLATFORM]), 4);
    // Its root is not the pinned one, its authority is another's, its platform is.
    assert_eq!(chain([&PLATFORM, &PLATFORM, &stranger]), 0);
    assert_eq!(chain([&stranger, &stranger, &PLATFORM]), 0);
    assert_eq!(chain([&stranger, &PLATFORM, &PLATFORM]), 0);
}

#[test]
fn there_is_room_for_so_many_chips() {
    use sealane_attestation::limits::VCEKS_MAX;
    let mut stock = Stock::new(ROOTS.clone());
    assert_eq!(put(&mut stock, snp_list(60, false)), Ok(Taken::New));
    // One root certifies all of them; each has its own id.
    let mut chips = Vec::new();
    for _ in 0..=VCEKS_MAX {
        let chip = Piece::Vcek(AMD.issue(&amd_recipe()).unwrap().certificates()[0].to_vec());
        assert_eq!(put(&mut stock, chip.clone()), Ok(Taken::New));
        chips.push(chip);
    }
    let held: Vec<_> = stock.pieces().iter().skip(1).map(sealane_attestation::VerifiedPiece::piece).collect();
    assert_eq!(held, chips.iter().skip(1).collect::<Vec<_>>(), "the newest are held, and the oldest went");
    assert!(stock.find(&PieceId::SnpList(Product::Genoa)).is_some());
}
