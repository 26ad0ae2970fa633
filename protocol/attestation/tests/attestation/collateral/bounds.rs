//! What reaches a bound exactly is taken, and one byte more is not.

use sealane_attestation::bundle::{Bundle, BundleError};
use sealane_attestation::limits::{
    BUNDLE_BYTES_MAX, BUNDLE_PIECES_MAX, CERTIFICATE_BYTES_MAX, REVOCATION_LIST_BYTES_MAX,
    STATEMENT_BYTES_MAX, TDX_COLLATERAL_BYTES_MAX,
};
use sealane_attestation::{
    Anchor, AnchorError, Collateral, Evidence, Format, Piece, Rejection, SignedStatement, TdxCollateral,
    TdxRoot, inspect,
};
use sealane_simulated::tdx::Material;
use sealane_simulated::tdx::forge::{Edits, Place};
use sealane_simulated::{Material as Chip, tdx};
use serde_json::Value;
use x509_cert::certificate::TbsCertificate;
use x509_cert::crl::TbsCertList;
use x509_cert::der::asn1::OctetString;
use x509_cert::ext::Extension;

use super::support::{
    AMD, CHIP, INTEL, PLATFORM, ROOTS, amd_recipe, dates, holding, intel_recipe, now, pieces,
};

/// An extension of this many bytes, which nobody knows and nobody has to.
fn padding(bytes: usize) -> Extension {
    let extn_value = OctetString::new(vec![0; bytes]).unwrap();
    Extension { extn_id: "1.2.3.4".parse().unwrap(), critical: false, extn_value }
}

/// What `make` makes with so much padding that `measure` finds `bytes` in it. Signatures differ by a byte or two.
fn sized<T>(bytes: usize, measure: impl Fn(&T) -> usize, make: impl Fn(usize) -> T) -> T {
    let mut padding = bytes / 2;
    loop {
        let made = make(padding);
        match measure(&made) {
            found if found == bytes => return made,
            found => padding = padding + bytes - found,
        }
    }
}

#[track_caller]
fn assert_verified(piece: Piece) {
    ROOTS.verify(piece, now()).unwrap();
}

#[track_caller]
fn assert_refused(piece: Piece, expected: Rejection) {
    assert_eq!(ROOTS.verify(piece, now()).unwrap_err(), expected);
}

fn amd_list(bytes: usize) -> Vec<u8> {
    sized(bytes, Vec::len, |more| {
        let pad = |list: &mut TbsCertList| list.crl_extensions.as_mut().unwrap().push(padding(more));
        AMD.revocation_list_edited(&amd_recipe(), dates(-60, 3600), false, pad).unwrap()
    })
}

#[test]
fn lists_of_amd_s_roots() {
    let [largest, larger] = [0, 1].map(|more| amd_list(REVOCATION_LIST_BYTES_MAX + more));
    let [_, ask, ark] = CHIP.certificates();
    let anchor = Anchor::new(ark, ask).unwrap();
    assert!(anchor.clone().with_revocation_list(&largest).is_ok());
    assert_eq!(anchor.with_revocation_list(&larger).unwrap_err(), AnchorError::Size);
    assert_verified(Piece::SnpList(largest));
    assert_refused(Piece::SnpList(larger), Rejection::CollateralMissing("the revocation list is too large"));
}

#[test]
fn certificates_of_chips() {
    let vcek = |bytes| {
        let signer = |chip: &Chip| chip.certificates()[0].len();
        let chip = sized(bytes, signer, |more| {
            let pad = |vcek: &mut TbsCertificate| vcek.extensions.as_mut().unwrap().push(padding(more));
            AMD.issue_edited(&amd_recipe(), |_| {}, pad).unwrap()
        });
        chip.certificates()[0].to_vec()
    };
    let (largest, larger) = (vcek(CERTIFICATE_BYTES_MAX), vcek(CERTIFICATE_BYTES_MAX + 1));
    assert_eq!(Piece::read(&largest), Ok(vec![Piece::Vcek(largest.clone())]));
    assert!(Piece::read(&larger).is_err());
    assert!(Piece::vcek(&larger).is_err());
    let needs = |signer: &[u8]| {
        let certificates = vec![signer.to_vec()];
        ROOTS.needs(&Evidence { format: Format::SevSnp, report: vec![], certificates }).len()
    };
    assert_eq!((needs(&largest), needs(&larger)), (1, 0));
    assert_verified(Piece::Vcek(largest));
    assert_refused(Piece::Vcek(larger), Rejection::Malformed("size of a certificate"));
}

/// A platform whose certificate at `place` has so many bytes.
fn certified(place: Place, bytes: usize) -> Material {
    let measure = |material: &Material| match place {
        Place::Platform => material.chain()[0].len(),
        Place::Authority => material.chain()[1].len(),
        Place::Root => material.chain()[2].len(),
        Place::Signer => material.collateral()[0].len(),
    };
    sized(bytes, measure, |more| {
        let pad = |at: Place, certificate: &mut TbsCertificate| {
            if at == place {
                certificate.extensions.as_mut().unwrap().push(padding(more));
            }
        };
        INTEL.issue_edited(&intel_recipe(), Edits { certificate: &pad, ..Edits::default() }).unwrap()
    })
}

fn together(material: &Material) -> Result<TdxCollateral, Rejection> {
    let [_, _, root] = material.chain();
    TdxCollateral::from_json_under(material.collateral_json().as_bytes(), &TdxRoot::new(root).unwrap())
}

#[test]
fn certificates_of_intel_s_signers() {
    const LARGE: Rejection = Rejection::CollateralMissing("a certificate of the collateral is too large");
    let largest = certified(Place::Signer, CERTIFICATE_BYTES_MAX);
    let larger = certified(Place::Signer, CERTIFICATE_BYTES_MAX + 1);
    together(&largest).unwrap();
    assert_eq!(together(&larger).unwrap_err(), LARGE);
    pieces(&largest).into_iter().for_each(assert_verified);
    let is_statement = |piece: &Piece| matches!(piece, Piece::TcbInfo(_) | Piece::QeIdentity(_));
    pieces(&larger).into_iter().filter(is_statement).for_each(|piece| assert_refused(piece, LARGE));
}

#[test]
fn certificates_of_a_platform() {
    let outcome = |bytes| {
        let material = certified(Place::Platform, bytes);
        let collateral = Collateral::empty().with_tdx(together(&material).unwrap());
        let report = tdx::Platform::new(material, None).unwrap().quote([0; 64]).unwrap().report;
        let evidence = Evidence { format: Format::Tdx, report, certificates: vec![] };
        inspect(&evidence, &collateral, now()).map(|_| ())
    };
    assert_eq!(outcome(CERTIFICATE_BYTES_MAX), Ok(()));
    assert_eq!(
        outcome(CERTIFICATE_BYTES_MAX + 1),
        Err(Rejection::Malformed("the certificates of the quote"))
    );
}

#[test]
fn lists_of_intel_s_root() {
    let list = |bytes| {
        let root_list = |material: &Material| material.collateral()[5].len();
        let material = sized(bytes, root_list, |more| {
            let pad = |at: Place, list: &mut TbsCertList| {
                if at == Place::Root {
                    list.crl_extensions.as_mut().unwrap().push(padding(more));
                }
            };
            INTEL.issue_edited(&intel_recipe(), Edits { list: &pad, ..Edits::default() }).unwrap()
        });
        Piece::TdxRootList(material.collateral()[5].clone())
    };
    assert_verified(list(REVOCATION_LIST_BYTES_MAX));
    assert_refused(
        list(REVOCATION_LIST_BYTES_MAX + 1),
        Rejection::CollateralMissing("a revocation list cannot be parsed"),
    );
}

#[test]
fn intel_s_statements() {
    const LARGE: Rejection = Rejection::CollateralMissing("the TCB info or QE identity is too large");
    for (statement, which) in [(0, 1), (1, 3)] {
        let material = |bytes| {
            sized(
                bytes,
                |material: &Material| material.collateral()[which].len(),
                |more| {
                    let pad = |value: &mut Value| value["padding"] = "x".repeat(more).into();
                    let edits = Edits::default();
                    let edits = if statement == 0 {
                        Edits { info: &pad, ..edits }
                    } else {
                        Edits { identity: &pad, ..edits }
                    };
                    INTEL.issue_edited(&intel_recipe(), edits).unwrap()
                },
            )
        };
        let (largest, larger) = (material(STATEMENT_BYTES_MAX), material(STATEMENT_BYTES_MAX + 1));
        together(&largest).unwrap();
        assert_eq!(together(&larger).unwrap_err(), LARGE);
        pieces(&largest).into_iter().for_each(assert_verified);
        let refused = pieces(&larger).into_iter().filter_map(|piece| ROOTS.verify(piece, now()).err());
        assert_eq!(refused.collect::<Vec<_>>(), [LARGE]);
    }
}

#[test]
fn collateral_in_json() {
    let json = PLATFORM.collateral_json();
    let padded = |bytes: usize| [json.as_bytes(), &vec![b' '; bytes - json.len()]].concat();
    let (largest, larger) = (padded(TDX_COLLATERAL_BYTES_MAX), padded(TDX_COLLATERAL_BYTES_MAX + 1));
    let [_, _, root] = PLATFORM.chain();
    let read = |text: &[u8]| TdxCollateral::from_json_under(text, &TdxRoot::new(root).unwrap()).map(|_| ());
    assert_eq!(read(&largest), Ok(()));
    assert_eq!(read(&larger), Err(Rejection::CollateralMissing("the TDX collateral is too large")));
    assert_eq!(Piece::read(&largest).map(|pieces| pieces.len()), Ok(4));
    assert_eq!(Piece::read(&larger), Err(Rejection::CollateralMissing("the file is too large")));
}

/// Hex takes twice the bytes of what it stands for.
#[test]
fn answers_in_hex() {
    let largest = amd_list(REVOCATION_LIST_BYTES_MAX);
    assert_eq!(Piece::list(hex::encode(&largest).as_bytes()), Ok(largest.clone()));
    assert!(Piece::list(format!("{}\n", hex::encode(&largest)).as_bytes()).is_err());
    let padded = [hex::encode(amd_list(1000)), " ".repeat(2 * REVOCATION_LIST_BYTES_MAX)].concat();
    assert!(Piece::list(padded.as_bytes()).is_err());
    assert!(Piece::list(&amd_list(REVOCATION_LIST_BYTES_MAX + 1)).is_err());
    assert!(Piece::list(b"0400").is_err(), "no SEQUENCE");
}

#[test]
fn bundles() {
    let bundle = |pieces| Bundle { issued: now(), min_tcb_evaluation: None, pieces };
    let of = |count| bundle(vec![Piece::SnpList(vec![]); count]).to_bytes();
    assert_eq!(Bundle::from_bytes(&of(BUNDLE_PIECES_MAX).unwrap()).unwrap().pieces.len(), BUNDLE_PIECES_MAX);
    let found = BUNDLE_PIECES_MAX + 1;
    assert_eq!(of(found), Err(BundleError::TooManyPieces { found }));
    let stating = |length| {
        let text = "x".repeat(length);
        bundle(vec![Piece::TcbInfo(SignedStatement { text, signature: vec![], signer: vec![] })]).to_bytes()
    };
    let room = BUNDLE_BYTES_MAX - stating(0).unwrap().len();
    let largest = stating(room).unwrap();
    assert_eq!(largest.len(), BUNDLE_BYTES_MAX);
    Bundle::from_bytes(&largest).unwrap();
    assert_eq!(stating(room + 1), Err(BundleError::TooLarge { most: BUNDLE_BYTES_MAX }));
}

/// More families than there is room for are refused; those that are held may still be renewed.
#[test]
fn families() {
    use sealane_attestation::Taken;
    use sealane_attestation::limits::FAMILIES_MAX;

    use super::support::{intel, put};
    let info = |family: usize, evaluation: u32| {
        let processor = tdx::Processor { fmspc: [family as u8; 6], ..tdx::Processor::default() };
        let all = intel(&tdx::forge::Recipe { processor, ..intel_recipe() }, evaluation);
        all.into_iter().find(|piece| matches!(piece, Piece::TcbInfo(_))).unwrap()
    };
    let mut stock = holding((0..FAMILIES_MAX).map(|family| info(family, 20)));
    let refused = Rejection::CollateralMissing("there is no place for more processor families");
    assert_eq!(put(&mut stock, info(FAMILIES_MAX, 20)), Err(refused));
    assert_eq!(put(&mut stock, info(0, 21)), Ok(Taken::New));
    assert_eq!(stock.pieces().len(), FAMILIES_MAX);
}
