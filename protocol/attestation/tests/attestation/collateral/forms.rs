//! Collateral as people keep it and services answer it.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{
    Collateral, Evidence, Format, Piece, PieceId, Revocation, SignedStatement, Stock, VendorRoots, inspect,
};
use sealane_fixtures::skip;
use sealane_simulated::tdx;
use sealane_types::{Platform, UnixSeconds};

use super::support::{CHIP, INTEL, PLATFORM, intel_recipe, now, pieces, snp_list};

fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n")).into_bytes()
}

#[test]
fn files_are_told_apart() {
    let (list, [vcek, ..]) = (snp_list(60, false), CHIP.certificates());
    let Piece::SnpList(der) = &list else { panic!() };
    for file in [der.clone(), pem("X509 CRL", der), hex::encode(der).into_bytes()] {
        assert_eq!(Piece::read(&file), Ok(vec![list.clone()]));
    }
    let vcek = Piece::Vcek(vcek.to_vec());
    let Piece::Vcek(der) = &vcek else { panic!() };
    assert_eq!(Piece::read(der), Ok(vec![vcek.clone()]));
    assert_eq!(Piece::read(&pem("CERTIFICATE", der)), Ok(vec![vcek.clone()]));
    // A chain as Azure answers it: the first is the chip's.
    let chain = [pem("CERTIFICATE", der), pem("CERTIFICATE", CHIP.certificates()[1])].concat();
    assert_eq!(Piece::vcek(&chain), Ok(vcek));
    let intel = pieces(&PLATFORM);
    assert_eq!(intel.len(), 4);
    for piece in intel {
        match piece {
            Piece::TdxRootList(list) => {
                assert_eq!(Piece::read(&list), Ok(vec![Piece::TdxRootList(list.clone())]));
            }
            Piece::TdxList { list, .. } => {
                let refused = Piece::read(&list).unwrap_err().to_string();
                assert!(refused.contains("needs the certificate of its issuer"), "{refused}");
            }
            _ => {}
        }
    }
    let edits = tdx::forge::Edits {
        list: &|_, list| list.issuer = "CN=Somebody".parse().unwrap(),
        ..tdx::forge::Edits::default()
    };
    let stranger = INTEL.issue_edited(&intel_recipe(), edits).unwrap().collateral();
    let refused = Piece::read(&stranger[5]).unwrap_err().to_string();
    assert!(refused.contains("it is neither"), "{refused}");
    for junk in
        [&b""[..], b"{}", b"x", &[0x30; 40], &[0x30, 0x82, 0xff, 0xff], b"-----BEGIN X-----", &[0; 300_000]]
    {
        assert!(Piece::read(junk).is_err(), "{junk:.20?}");
    }
}

/// Intel's own, as a service would answer them, under Intel's root.
#[test]
fn genuine_statements_are_taken_and_judge_a_genuine_quote() {
    const NOW: UnixSeconds = UnixSeconds(1_752_105_600);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tdx");
    let file = |name: &str| fs::read(folder.join(name)).unwrap();
    let library: serde_json::Value = serde_json::from_slice(&file("v4.collateral.json")).unwrap();
    let text = |name: &str| library[name].as_str().unwrap();
    let answer = |member: &str, name: &str, signature: &str| {
        format!("{{\"{member}\":{},\"signature\":\"{}\"}}", text(name), text(signature)).into_bytes()
    };
    let info = answer("tcbInfo", "tcb_info", "tcb_info_signature");
    let identity = answer("enclaveIdentity", "qe_identity", "qe_identity_signature");
    let answered = [
        Piece::tcb_info(&info, text("tcb_info_issuer_chain").as_bytes()).unwrap(),
        Piece::qe_identity(&identity, text("qe_identity_issuer_chain").as_bytes()).unwrap(),
        Piece::TdxRootList(Piece::list(text("root_ca_crl").as_bytes()).unwrap()),
        Piece::tdx_list(text("pck_crl").as_bytes(), text("pck_crl_issuer_chain").as_bytes()).unwrap(),
    ];
    let mut stock = Stock::new(VendorRoots::pinned());
    for piece in &answered {
        let verified = stock.roots().verify(piece.clone(), NOW).unwrap();
        stock.take(verified, NOW).unwrap();
    }
    let mut filed = Piece::read(&file("v4.collateral.json")).unwrap();
    assert!(answered.iter().all(|piece| filed.contains(piece)));
    let evidence = Evidence { format: Format::Tdx, report: file("v4.quote"), certificates: vec![] };
    let needed = stock.roots().needs(&evidence);
    assert!(needed.len() == 4 && needed.iter().all(|id| stock.find(id).is_some()), "{needed:?}");
    let (collateral, problems) = stock.assemble(1);
    assert!(problems.is_empty(), "{problems:?}");
    let claims = inspect(&evidence, &collateral, NOW).unwrap();
    assert_eq!(claims.platform(), Platform::Tdx);
    // One changed letter of the signed text.
    filed.retain(|piece| matches!(piece, Piece::TcbInfo(_)));
    let Some(Piece::TcbInfo(SignedStatement { text, signature, signer })) = filed.pop() else { panic!() };
    let text = text.replacen("UpToDate", "UpToDat3", 1);
    let changed = Piece::TcbInfo(SignedStatement { text, signature, signer });
    assert!(stock.roots().verify(changed, NOW).is_err());
}

/// AMD's own certificates of chips, under AMD's roots.
#[test]
fn genuine_chips_are_taken_and_found_by_their_reports() {
    // The certificate of a chip ends seven years after it was made.
    const NOW: UnixSeconds = UnixSeconds(1_795_132_800);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snp");
    for name in ["milan-v2-vcek", "milan-v2-debug"] {
        let vcek = fs::read(folder.join(format!("{name}.vcek.der"))).unwrap();
        let report = fs::read(folder.join(format!("{name}.report"))).unwrap();
        let mut stock = Stock::new(VendorRoots::pinned());
        let verified = stock.roots().verify(Piece::read(&vcek).unwrap().remove(0), NOW).unwrap();
        assert!(matches!(verified.id(), PieceId::Vcek(_)));
        stock.take(verified, NOW).unwrap();
        assert_eq!(stock.vcek(&report), Some(vcek.as_slice()), "{name}");
    }
    assert!(Collateral::builtin().tdx().is_empty());
}

/// AMD's own lists, where they lie beside this repository.
#[test]
fn genuine_lists_are_taken_and_judge_a_genuine_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    for (product, sample) in
        [("milan", "milan-v3-azure"), ("genoa", "genoa-v3-azure"), ("turin", "turin-v5-gcp")]
    {
        let Ok(list) = fs::read(folder.join(format!("ca/amd-{product}.crl.der"))) else {
            let test = concat!(module_path!(), "::genuine_lists_are_taken_and_judge_a_genuine_report");
            skip(test, "there is no ../shared/vectors");
            return;
        };
        let mut stock = Stock::new(VendorRoots::pinned());
        let verified = stock.roots().verify(Piece::read(&list).unwrap().remove(0), now()).unwrap();
        let then = UnixSeconds(verified.term().until.0 - 24 * 3600);
        stock.take(verified, then).unwrap();
        let file = |name: &str| fs::read(folder.join("snp").join(sample).join(name)).unwrap();
        let evidence = Evidence {
            format: Format::SevSnp,
            report: file("report.bin"),
            certificates: vec![file("vek.der")],
        };
        assert!(stock.roots().needs(&evidence).iter().all(|id| stock.find(id).is_some()));
        let claims = inspect(&evidence, &stock.assemble(1).0, then).unwrap();
        assert_eq!(claims.revocation(), Revocation::Checked, "{product}");
    }
}
