//! Bundles of collateral as whoever operates an air-gapped cluster makes them, without a cluster.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::folder::Folder;

/// A folder with the key of an owner and of a stranger, and what AMD and Intel really issued.
fn desk() -> Folder {
    let desk = Folder::new();
    for owner in ["alice", "mallory"] {
        desk.good(&["policy", "keygen", "--out", &format!("{owner}.pem")]);
    }
    let vendors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/attestation/tests");
    for (from, to) in [("snp/milan-v2-vcek.vcek.der", "vcek.der"), ("tdx/v4.collateral.json", "expired.json")]
    {
        fs::copy(vendors.join(from), desk.path(to)).unwrap();
    }
    desk
}

impl Folder {
    fn bundle(&self) {
        self.good(&["collateral", "bundle", "--key", "alice.pem", "vcek.der"]);
    }

    fn shown(&self) -> Value {
        serde_json::from_str(&self.good(&["collateral", "show", "-o", "json", "collateral.json"])).unwrap()
    }
}

#[test]
fn what_is_bundled_is_shown() {
    let desk = desk();
    desk.bundle();
    let shown = desk.shown();
    let piece = &shown["pieces"][0];
    assert!(piece["what"].as_str().unwrap().starts_with("the VCEK of Milan chip"), "{piece}");
    assert_eq!(piece["state"], "Fresh");
    assert_eq!(shown["expires"], piece["until"]);
    assert_eq!(shown["signers"].as_array().unwrap().len(), 1);
    let text = desk.good(&["collateral", "show", "collateral.json"]);
    assert!(text.contains("valid for") && text.contains("VALID UNTIL"), "{text}");
}

#[test]
fn a_bundle_is_imported_by_the_word_of_an_owner_alone() {
    let desk = desk();
    desk.bundle();
    let import = |owner: &'static str| {
        ["collateral", "import", "--print", "--namespace", "demo", "--owner", owner, "collateral.json"]
    };
    let manifest: Value = serde_json::from_str(&desk.good(&import("alice.pem"))).unwrap();
    assert_eq!(
        manifest["metadata"],
        json!({
            "name": "sealane-collateral", "namespace": "demo", "labels": {"app.kubernetes.io/part-of": "sealane"},
        })
    );
    assert_eq!(manifest["data"]["bundle.json"], fs::read_to_string(desk.path("collateral.json")).unwrap());
    let refused = desk.bad(1, &import("mallory.pem"));
    assert!(refused.contains("none of the policy's owners signed it"), "{refused}");
    // Without owners and without a cluster there is nobody to ask.
    let refused = desk.bad(1, &["collateral", "import", "collateral.json"]);
    assert!(refused.contains("no cluster is configured"), "{refused}");
}

#[test]
fn what_is_over_malformed_or_empty_is_not_bundled() {
    let desk = desk();
    let bundle = |file: &'static str| ["collateral", "bundle", "--key", "alice.pem", file];
    let refused = desk.bad(1, &bundle("expired.json"));
    assert!(refused.contains("expired.json") && refused.contains("expired at 20"), "{refused}");
    desk.write("junk", "junk");
    let refused = desk.bad(1, &bundle("junk"));
    assert!(refused.contains("junk") && refused.contains("neither a revocation list"), "{refused}");
    let mut vcek = fs::read(desk.path("vcek.der")).unwrap();
    let last = vcek.len() - 1;
    vcek[last] ^= 1;
    desk.write("spoiled.der", vcek);
    assert!(desk.bad(1, &bundle("spoiled.der")).contains("spoiled.der"));
    let refused = desk.bad(1, &["collateral", "bundle", "--key", "alice.pem"]);
    assert!(refused.contains("nothing to put"), "{refused}");
    assert!(desk.bad(1, &bundle("missing")).contains("cannot read missing"));
    desk.bad(2, &["collateral", "bundle"]);
    assert!(!desk.path("collateral.json").exists());
}

#[test]
fn a_bundle_goes_on_from_an_earlier_one() {
    let desk = desk();
    desk.bundle();
    desk.good(&[
        "collateral",
        "bundle",
        "--key",
        "alice.pem",
        "--from",
        "collateral.json",
        "--out",
        "next.json",
    ]);
    fs::rename(desk.path("next.json"), desk.path("collateral.json")).unwrap();
    assert_eq!(desk.shown()["pieces"].as_array().unwrap().len(), 1);
}

#[test]
fn the_least_tcb_evaluation_does_not_fall_unasked() {
    let desk = desk();
    let bundle = |more: &[&'static str]| [&["collateral", "bundle", "--key", "alice.pem"], more].concat();
    let floor = |file: &str| {
        let shown = desk.good(&["collateral", "show", "-o", "json", file]);
        serde_json::from_str::<Value>(&shown).unwrap()["minTcbEvaluation"].clone()
    };
    desk.good(&bundle(&["--min-tcb-evaluation", "20", "vcek.der"]));
    let on = ["--from", "collateral.json", "--out", "next.json"];
    let kept = desk.run(&bundle(&on));
    assert!(kept.status.success());
    assert!(String::from_utf8_lossy(&kept.stderr).contains("--min-tcb-evaluation 20 is kept"), "{kept:?}");
    assert_eq!(floor("next.json"), 20);
    desk.good(&bundle(&[&on[..], &["--min-tcb-evaluation", "21"]].concat()));
    assert_eq!(floor("next.json"), 21);
    let lower = [&on[..], &["--min-tcb-evaluation", "19"]].concat();
    let refused = desk.bad(1, &bundle(&lower));
    assert!(refused.contains("below tcbEvaluationDataNumber 20"), "{refused}");
    desk.good(&bundle(&[&lower[..], &["--lower-min-tcb-evaluation"]].concat()));
    assert_eq!(floor("next.json"), 19);
}

#[test]
fn a_changed_bundle_is_refused() {
    let desk = desk();
    desk.bundle();
    let text = fs::read_to_string(desk.path("collateral.json")).unwrap();
    desk.write("collateral.json", text.replacen("\"document\":\"ey", "\"document\":\"fy", 1));
    desk.bad(1, &["collateral", "show", "collateral.json"]);
    desk.bad(1, &["collateral", "import", "--print", "--owner", "alice.pem", "collateral.json"]);
}
