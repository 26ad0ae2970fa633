//! Genuine documents: those that this crate may carry, and those of a checkout beside this one.

use std::fs;
use std::path::{Path, PathBuf};

use sealane_attestation::{Claims, Collateral, Evidence, Format, Rejection, inspect};
use sealane_fixtures::skip;
use sealane_policy::NitroPermissions;
use sealane_types::{Platform, UnixSeconds};
use serde_json::Value;

use super::support::said;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/nitro")
}

fn genuine(name: &str) -> Evidence {
    let report = fs::read(folder().join(name)).unwrap();
    Evidence { format: Format::Nitro, report, certificates: vec![] }
}

/// Judges one entry of an index as its `policy` and `now` say.
fn outcome(folder: &Path, entry: &Value) -> Result<Claims, Rejection> {
    let file = |name: &str| fs::read(folder.join(entry["files"][name].as_str().unwrap())).unwrap();
    let evidence = Evidence { format: Format::Nitro, report: file("doc"), certificates: vec![] };
    let collateral = Collateral::empty().with_nitro_root(&file("root")).unwrap();
    assert_eq!(collateral.nitro_root(), Collateral::builtin().nitro_root(), "the pinned root is AWS's");
    let now = UnixSeconds(entry["now"].as_u64().unwrap());
    let claims = inspect(&evidence, &collateral, now)?;
    let debug = entry["policy"]["allow_debug"].as_bool().unwrap_or_default();
    said(&claims).permitted(&NitroPermissions { debug })?;
    said(&claims).fresh(entry["policy"]["max_age"].as_u64().unwrap(), now)?;
    Ok(claims)
}

fn check(folder: &Path) -> usize {
    let index: Value = serde_json::from_str(&fs::read_to_string(folder.join("index.json")).unwrap()).unwrap();
    let entries = index["entries"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "nitro");
    let mut count = 0;
    for entry in entries {
        let outcome = outcome(folder, entry);
        let accepted = if outcome.is_ok() { "accept" } else { "reject" };
        assert_eq!(entry["expect"], accepted, "{}: {outcome:?}", entry["id"]);
        count += 1;
    }
    count
}

#[test]
fn documents_of_this_repository() {
    assert_eq!(check(&folder()), 7);
}

/// `../shared/vectors` beside the repository, with more documents than may be committed here.
#[test]
fn documents_beside_this_repository() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    if !folder.join("index.json").exists() {
        skip(concat!(module_path!(), "::documents_beside_this_repository"), "there is no ../shared/vectors");
        return;
    }
    let count = check(&folder);
    eprintln!("{count} Nitro documents judged");
    assert!(count >= 5);
}

#[test]
fn a_genuine_document_says_what_aws_wrote() {
    let now = UnixSeconds(1_736_179_680);
    let claims = inspect(&genuine("prod-2025.cbor"), &Collateral::builtin(), now).unwrap();
    assert_eq!(claims.platform(), Platform::Nitro);
    assert_eq!(claims.root().to_string(), "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b");
    // The enclave's certificate lives three hours and three seconds.
    assert_eq!(claims.expires(), UnixSeconds(1_736_190_425));
    let nitro = said(&claims);
    assert_eq!(nitro.module_id(), "i-0bee92034f3d60691-enc01943c5eaab3ad6a");
    assert_eq!(nitro.timestamp(), UnixSeconds(1_736_179_625));
    assert!(nitro.image()[0].to_string().starts_with("8bb159f202bb"));
    assert!(nitro.pcr(4).unwrap().to_string().starts_with("5ecf4fb1"));
    assert_eq!(nitro.public_key().map(<[u8]>::len), Some(294));
    assert_eq!((nitro.nonce(), claims.report_data()), (None, None));
}

/// Real bytes, one of them changed: in the envelope, in the payload, in a certificate, in the signature.
#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let genuine = genuine("prod-2025.cbor");
    let (collateral, now) = (Collateral::builtin(), UnixSeconds(1_736_179_680));
    inspect(&genuine, &collateral, now).unwrap();
    for position in 0..genuine.report.len() {
        let mut changed = genuine.clone();
        changed.report[position] ^= 1 << (position % 8);
        assert!(inspect(&changed, &collateral, now).is_err(), "{position}");
    }
    for length in 0..genuine.report.len() {
        let cut = Evidence { report: genuine.report[..length].to_vec(), ..genuine.clone() };
        assert!(inspect(&cut, &collateral, now).is_err(), "{length}");
    }
}
