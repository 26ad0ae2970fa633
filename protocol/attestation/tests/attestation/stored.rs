//! Real reports: those that this crate may carry, and those of a checkout beside this one.

use std::fs;
use std::path::{Path, PathBuf};

use sealane_attestation::{Anchor, Claims, Collateral, Evidence, Format, Rejection, inspect};
use sealane_fixtures::skip;
use sealane_policy::SnpPermissions;
use sealane_types::UnixSeconds;
use serde_json::Value;

use crate::support::said;

/// Judges one entry of an index as its `policy` and `now` say.
///
/// The index asks for a verdict on the evidence alone, so nothing is pinned, and settings of the guest that
/// are no weakness by themselves are tolerated.
fn outcome(folder: &Path, entry: &Value, revocation: bool) -> Result<Claims, Rejection> {
    let file = |name: &str| entry["files"][name].as_str().map(|path| fs::read(folder.join(path)).unwrap());
    let (report, vek) = (file("report").unwrap(), file("vek").unwrap());
    let mut anchor = Anchor::new(&file("ark").unwrap(), &file("ask").unwrap()).unwrap();
    if revocation {
        let product = anchor.product().as_str().to_lowercase();
        let list = fs::read(folder.join(format!("ca/amd-{product}.crl.der"))).unwrap();
        anchor = anchor.with_revocation_list(&list).unwrap();
    }
    let evidence = Evidence { format: Format::SevSnp, report, certificates: vec![vek] };
    let now = UnixSeconds(entry["now"].as_u64().unwrap());
    let claims = inspect(&evidence, &Collateral::empty().with_anchor(anchor), now)?;
    let policy = &entry["policy"];
    let permissions = SnpPermissions {
        debug: policy["allow_debug"].as_bool().unwrap_or_default(),
        vlek: policy["allow_vlek"].as_bool().unwrap_or_default(),
        vmpl_max: policy["max_vmpl"].as_u64().unwrap_or_default().try_into().unwrap(),
        smt: true,
        cxl: true,
        tio: true,
        milan: true,
        ..SnpPermissions::default()
    };
    said(&claims).permitted(&permissions)?;
    Ok(claims)
}

/// The entries for SEV-SNP, all of which have their files, and how they came out.
fn check(folder: &Path) -> usize {
    let index: Value = serde_json::from_str(&fs::read_to_string(folder.join("index.json")).unwrap()).unwrap();
    let entries = index["entries"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "sev-snp");
    let mut count = 0;
    for entry in entries {
        let outcome = outcome(folder, entry, false);
        let accepted = if outcome.is_ok() { "accept" } else { "reject" };
        assert_eq!(entry["expect"], accepted, "{}: {outcome:?}", entry["id"]);
        count += 1;
    }
    count
}

/// The roots that this crate pins are the ones under which real reports verify.
#[test]
fn reports_of_this_repository() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snp");
    assert_eq!(check(&folder), 3);
    let report = fs::read(folder.join("milan-v2-vcek.report")).unwrap();
    let certificates = vec![fs::read(folder.join("milan-v2-vcek.vcek.der")).unwrap()];
    let evidence = Evidence { format: Format::SevSnp, report, certificates };
    let now = UnixSeconds(1_795_132_800);
    let claims = inspect(&evidence, &Collateral::builtin(), now).unwrap();
    let snp = said(&claims);
    assert_eq!((snp.report_version(), snp.tcb().reported.microcode), (2, 115));
}

/// `../shared/vectors` beside the repository, with more platforms than may be committed here.
#[test]
fn reports_beside_this_repository() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    if !folder.join("index.json").exists() {
        skip(concat!(module_path!(), "::reports_beside_this_repository"), "there is no ../shared/vectors");
        return;
    }
    let count = check(&folder);
    eprintln!("{count} pieces of SEV-SNP evidence judged");
    assert!(count >= 9);
    revocation(&folder);
}

/// The copies of AMD's lists have expired at the entries' times, so they are consulted in time.
fn revocation(folder: &Path) {
    let index: Value = serde_json::from_str(&fs::read_to_string(folder.join("index.json")).unwrap()).unwrap();
    let accepted = index["entries"].as_array().unwrap().iter();
    let accepted = accepted.filter(|entry| entry["kind"] == "sev-snp" && entry["expect"] == "accept");
    for entry in accepted {
        // Within the validity of every list here, and of every certificate but the ones it skips.
        const NOVEMBER_2025: u64 = 1_763_000_000;
        let mut entry = entry.clone();
        entry["now"] = NOVEMBER_2025.into();
        let outcome = outcome(folder, &entry, true);
        let claims = outcome.unwrap_or_else(|refused| panic!("{}: {refused}", entry["id"]));
        assert_eq!(claims.revocation(), sealane_attestation::Revocation::Checked);
        entry["now"] = (claims.expires().0 + 1).into();
        let late = self::outcome(folder, &entry, true).unwrap_err();
        assert!(
            matches!(
                late.reason(),
                sealane_types::Reason::CollateralExpired | sealane_types::Reason::EvidenceExpired
            ),
            "{}: {late}",
            entry["id"]
        );
    }
}
