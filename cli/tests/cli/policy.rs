//! The policy flow as a newcomer goes through it, without a cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::folder::Folder;

const ROOT: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

/// A folder with the keys of alice, bob and carol.
fn desk() -> Folder {
    let desk = Folder::new();
    for owner in ["alice", "bob", "carol"] {
        desk.good(&["policy", "keygen", "--out", &format!("{owner}.pem")]);
    }
    desk
}

impl Folder {
    /// Drafts into `file`; `more` are further flags of `policy init`.
    #[track_caller]
    fn draft(&self, file: &str, more: &[&str]) {
        let mut init = vec!["policy", "init", "--namespace", "demo", "--name", "demo"];
        init.extend(["--session", "activations=embedder:ranker"]);
        init.extend(more);
        self.write(file, self.good(&init));
    }

    fn draft_simulated(&self, file: &str, more: &[&str]) {
        let mut flags = vec!["--simulated", "--simulated-root", ROOT];
        flags.extend(more);
        self.draft(file, &flags);
    }

    #[track_caller]
    fn sign(&self, owner: &str, file: &str) {
        self.good(&["policy", "sign", "--key", &format!("{owner}.pem"), file]);
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(file)).unwrap()).unwrap()
    }

    fn edit(&self, file: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.json(file);
        change(&mut value);
        self.write(file, format!("{value:#}\n"));
    }
}

const OWNERS: [&str; 4] = ["--owner-key", "alice.pem", "--owner-key", "bob.pem"];

#[test]
fn from_keys_to_a_manifest() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    assert!(desk.good(&["policy", "show", "policy.json"]).contains("embedder -> ranker"));
    desk.sign("alice", "policy.json");
    let errors = desk.bad(1, &["policy", "verify", "policy.json"]);
    assert!(errors.contains("1 of the 2 valid signatures"), "{errors}");
    desk.sign("bob", "policy.json");
    let verified = desk.good(&["policy", "verify", "policy.json"]);
    assert!(verified.contains("epoch 1 of demo/demo"), "{verified}");

    let manifest = desk.good(&["policy", "manifest", "--name", "demo", "--namespace", "demo", "policy.json"]);
    desk.write("trustpolicy.yaml", &manifest);
    assert!(manifest.contains("kind: TrustPolicy"), "{manifest}");
    let manifest: Value =
        serde_json::from_str(&desk.good(&["policy", "manifest", "-o", "json", "policy.json"])).unwrap();
    assert_eq!(manifest["metadata"], json!({"name": "demo", "namespace": "demo"}));
    assert_eq!(manifest["spec"]["roots"]["threshold"], 2);
    assert_eq!(manifest["spec"]["signatures"].as_array().unwrap().len(), 2);
    // The manifest is a policy in its own right for every other command.
    for command in ["show", "verify"] {
        desk.good(&["policy", command, "trustpolicy.yaml"]);
    }
    let json = desk.good(&["policy", "verify", "-o", "json", "trustpolicy.yaml"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["epoch"], &json["threshold"]), (&json!(1), &json!(2)));
}

#[test]
fn a_draft_is_the_signed_form_and_pins_simulation() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let text = fs::read(desk.path("policy.json")).unwrap();
    let text = text.strip_suffix(b"\n").unwrap();
    let document = sealane_policy::parse(text).unwrap();
    assert_eq!(document.epoch, 1);
    let lifetime = document.expires.unix().0 - document.not_before.unix().0;
    assert!((604_800..604_900).contains(&lifetime), "seven days: {lifetime}");
    let entry = &document.peers[&"embedder".parse().unwrap()].entries[0];
    assert_eq!(entry.root.unwrap().to_string(), ROOT);
    let sealane_policy::Reference::SevSnp(snp) = &entry.reference else { panic!("{entry:?}") };
    assert!(snp.measurements.contains(&sealane_simulated::MEASUREMENT));
    let initdata = b"sealane simulated initdata\nnamespace: demo\npeer: embedder\n";
    assert_eq!(snp.host_data, [sealane_simulated::host_data(Some(initdata))].into());
    assert_eq!(document.sessions[0].name.as_ref().unwrap().as_str(), "activations");
}

#[test]
fn a_draft_for_hardware_says_what_is_still_missing() {
    let desk = desk();
    desk.draft("policy.json", &[OWNERS.as_slice(), &["--pretty"]].concat());
    let shown = desk.good(&["policy", "show", "policy.json"]);
    assert!(shown.contains("Sidecars refuse it as it is"), "{shown}");
    let errors = desk.bad(1, &["policy", "sign", "--key", "alice.pem", "policy.json"]);
    assert!(errors.contains("`peers.embedder.entries[0].measurements`"), "{errors}");
    assert!(errors.contains("`peers.ranker.entries[0].minTcb`"), "{errors}");

    let measurement = "ab".repeat(48);
    let [first, second] = [1, 2].map(|byte: u8| format!("{byte:02x}").repeat(32));
    let mut flags = OWNERS.to_vec();
    let (first, second) = (format!("embedder={first}"), format!("ranker={second}"));
    flags.extend(["--measurement", &measurement, "--host-data", &first, "--host-data", &second]);
    flags.extend(["--product", "Milan", "--min-tcb", "bootloader=4,tee=0,snp=24,microcode=219"]);
    desk.draft("policy.json", &flags);
    desk.sign("alice", "policy.json");
    let shown = desk.good(&["policy", "show", "policy.json"]);
    assert!(shown.contains("bootloader 4, TEE 0, SNP 24, microcode 219"), "{shown}");
    assert!(shown.contains("`peers.embedder.entries[0].allowMilan` accepts any Milan"), "{shown}");
    assert!(!shown.contains("NOT PINNED") && !shown.contains("any initdata"), "{shown}");
}

#[test]
fn an_edited_draft_is_signed_in_its_signed_form() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    desk.edit("policy.json", |draft| draft["floors"]["postQuantum"] = json!(false));
    desk.sign("alice", "policy.json");
    desk.sign("bob", "policy.json");
    desk.good(&["policy", "verify", "policy.json"]);
    assert!(desk.good(&["policy", "show", "policy.json"]).contains("MAY fall back"));
}

#[test]
fn a_cipher_that_is_a_draft_is_said_to_be_one() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let told = || desk.good(&["policy", "show", "policy.json"]).contains("Aegis256X4 is a DRAFT");
    assert!(!told());
    desk.edit("policy.json", |draft| draft["floors"]["ciphers"] = json!(["Aes256Gcm", "Aegis256X4"]));
    assert!(told());
}

#[test]
fn a_congestion_control_that_is_left_out_is_told_in_words() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let told = || {
        desk.good(&["policy", "show", "policy.json"]).contains("shares paths over Udp and AfXdp by Cubic\n")
    };
    assert!(!told(), "both are permitted, which nobody has to read");
    desk.edit("policy.json", |draft| draft["floors"]["congestion"] = json!(["Cubic"]));
    assert!(told());
}

#[test]
fn a_wrong_draft_is_not_signed_and_says_where() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    desk.edit("policy.json", |draft| draft["sessions"][0]["to"] = json!("nobody"));
    let before = fs::read(desk.path("policy.json")).unwrap();
    let errors = desk.bad(1, &["policy", "sign", "--key", "alice.pem", "policy.json"]);
    assert!(errors.contains("`sessions[0]` names the Peer `nobody`"), "{errors}");
    assert_eq!(fs::read(desk.path("policy.json")).unwrap(), before);

    desk.write("twice.json", r#"{"version": 1, "version": 1}"#);
    let errors = desk.bad(1, &["policy", "sign", "--key", "alice.pem", "twice.json"]);
    assert!(errors.contains("`version` appears twice"), "{errors}");
}

#[test]
fn signing_twice_with_one_key_is_one_signature() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    desk.sign("alice", "policy.json");
    desk.sign("alice", "policy.json");
    assert_eq!(desk.json("policy.json")["signatures"].as_array().unwrap().len(), 1);
}

#[test]
fn owners_can_sign_copies() {
    let desk = desk();
    desk.draft_simulated("draft.json", &OWNERS);
    desk.good(&["policy", "sign", "--key", "alice.pem", "--out", "a.json", "draft.json"]);
    desk.good(&["policy", "sign", "--key", "bob.pem", "--out", "b.json", "draft.json"]);
    let manifest = desk.good(&["policy", "manifest", "a.json", "b.json"]);
    desk.write("trustpolicy.yaml", manifest);
    desk.good(&["policy", "verify", "trustpolicy.yaml"]);

    desk.draft_simulated("other.json", &[OWNERS.as_slice(), &["--epoch", "2"]].concat());
    desk.sign("bob", "other.json");
    let errors = desk.bad(1, &["policy", "manifest", "a.json", "other.json"]);
    assert!(errors.contains("another document"), "{errors}");
}

#[test]
fn an_incomplete_manifest_is_printed_with_a_warning() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    desk.sign("alice", "policy.json");
    let output = desk.run(&["policy", "manifest", "policy.json"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("every sidecar will refuse"));
}

#[test]
fn a_manifest_names_the_policy_it_was_made_for() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let errors = desk.bad(1, &["policy", "manifest", "--name", "other", "policy.json"]);
    assert!(errors.contains("--name is other, but the document was made for demo"), "{errors}");
    let errors = desk.bad(1, &["policy", "manifest", "--namespace", "other", "policy.json"]);
    assert!(errors.contains("--namespace"), "{errors}");
}

#[test]
fn the_next_epoch_follows_the_one_before() {
    let desk = desk();
    desk.draft_simulated("one.json", &OWNERS);
    desk.edit("one.json", |draft| {
        draft["floors"] = json!({
            "postQuantum": false, "ciphers": ["Aes256Gcm"], "carriers": ["Tcp"], "complete": true,
        });
        draft["limits"] = json!({"sessionSeconds": 3600});
        draft["collateral"] = json!({"graceSeconds": 600});
    });
    desk.sign("alice", "one.json");
    desk.sign("bob", "one.json");
    desk.draft_simulated("two.json", &["--after", "one.json"]);
    let two = desk.json("two.json");
    let one: Value =
        serde_json::from_str(&desk.good(&["policy", "verify", "-o", "json", "one.json"])).unwrap();
    assert_eq!((&two["epoch"], &two["previous"]), (&json!(2), &one["digest"]));
    assert_eq!(two["authorities"]["threshold"], 2, "the owners are kept");
    let changes = desk.good(&["policy", "diff", "one.json", "two.json"]);
    assert!(changes.contains("~ epoch: 1 -> 2"), "{changes}");
    let changes = desk.good(&["policy", "diff", "-o", "json", "one.json", "two.json"]);
    let changes: Value = serde_json::from_str(&changes).unwrap();
    assert_eq!(changes[0], json!({"path": "epoch", "before": 1, "after": 2}));
    let mut changed = changes.as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap());
    assert!(
        changed.all(|path| ["epoch", "previous", "notBefore", "expires"].contains(&path)),
        "owners decide on floors and limits once: {changes:#}"
    );
}

/// alice and bob hand over to bob and carol.
fn handover(desk: &Folder) {
    desk.draft_simulated("one.json", &OWNERS);
    desk.sign("alice", "one.json");
    desk.sign("bob", "one.json");
    desk.write("one.yaml", desk.good(&["policy", "manifest", "one.json"]));
    let new = ["--owner-key", "bob.pem", "--owner-key", "carol.pem"];
    desk.draft_simulated("two.json", &[new.as_slice(), &["--after", "one.json"]].concat());
    for owner in ["alice", "bob", "carol"] {
        desk.sign(owner, "two.json");
    }
    let two = desk.good(&["policy", "manifest", "--roots", "one.yaml", "two.json"]);
    desk.write("two.yaml", two);
}

#[test]
fn owners_change_and_the_roots_stay() {
    let desk = desk();
    handover(&desk);
    desk.good(&["policy", "verify", "two.yaml"]);
    desk.draft_simulated("three.json", &["--after", "two.yaml"]);
    desk.sign("bob", "three.json");
    desk.sign("carol", "three.json");
    let three = desk.good(&["policy", "manifest", "--roots", "two.yaml", "three.json"]);
    desk.write("three.yaml", &three);
    let verified = desk.good(&["policy", "verify", "--roots", "one.yaml", "three.yaml"]);
    assert!(verified.contains("rotations  1"), "{verified}");
    let read =
        |file: &str| serde_norway::from_str::<Value>(&fs::read_to_string(desk.path(file)).unwrap()).unwrap();
    assert_eq!(read("three.yaml")["spec"]["roots"], read("one.yaml")["spec"]["roots"]);

    // A fourth epoch keeps the one rotation and adds none.
    desk.draft_simulated("four.json", &["--after", "three.yaml"]);
    desk.sign("bob", "four.json");
    desk.sign("carol", "four.json");
    let four = desk.good(&["policy", "manifest", "--roots", "three.yaml", "-o", "json", "four.json"]);
    let four: Value = serde_json::from_str(&four).unwrap();
    assert_eq!(four["spec"]["rotations"].as_array().unwrap().len(), 1);
}

#[test]
fn a_rotation_that_the_old_owners_did_not_sign_is_refused() {
    let desk = desk();
    handover(&desk);
    desk.edit("two.json", |bundle| drop(bundle["signatures"].as_array_mut().unwrap().remove(0)));
    desk.write("roots.json", {
        let owner = |name: &str| {
            let text = desk.good(&["policy", "show", "-o", "json", "one.json"]);
            let document: Value = serde_json::from_str(&text).unwrap();
            document[name].clone()
        };
        let authorities = owner("authorities");
        json!({
            "namespace": "demo", "policy": "demo", "minimumEpoch": 1,
            "threshold": authorities["threshold"], "keys": authorities["keys"],
        })
        .to_string()
    });
    let errors = desk.bad(1, &["policy", "verify", "--roots", "roots.json", "two.json"]);
    assert!(errors.contains("the owners in the roots"), "{errors}");
}

#[test]
fn dates_are_checked_for_the_moment_asked() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    desk.sign("alice", "policy.json");
    desk.sign("bob", "policy.json");
    let errors = desk.bad(1, &["policy", "verify", "--at", "2099-01-01T00:00:00Z", "policy.json"]);
    assert!(errors.contains("expired"), "{errors}");
    let errors = desk.bad(1, &["policy", "verify", "--at", "2020-01-01T00:00:00Z", "policy.json"]);
    assert!(errors.contains("not in force before"), "{errors}");
}

#[test]
fn keys_are_private_and_never_overwritten() {
    let desk = desk();
    let mode = fs::metadata(desk.path("alice.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = fs::read(desk.path("alice.pem")).unwrap();
    let errors = desk.bad(1, &["policy", "keygen", "--out", "alice.pem"]);
    assert!(errors.contains("never overwritten"), "{errors}");
    assert_eq!(fs::read(desk.path("alice.pem")).unwrap(), before);
    let json = desk.good(&["policy", "keygen", "--out", "dora.pem", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    // Owners are named by their public keys where the private one is not at hand.
    let key = json["publicKey"].as_str().unwrap();
    desk.draft_simulated("policy.json", &["--owner-key", "alice.pem", "--keys", key, "--threshold", "1"]);
    let owners = &desk.json("policy.json")["authorities"];
    assert!(owners["keys"].as_array().unwrap().contains(&json!(key)));
    assert_eq!(owners["threshold"], 1);
}

#[test]
fn bad_usage_exits_2() {
    let desk = desk();
    for arguments in [
        &["policy", "sign"][..],
        &["policy", "unheard-of"],
        &["policy", "verify", "-o", "xml", "policy.json"],
        &["policy", "init", "--session", "embedder"],
        &["policy", "init", "--threshold", "0"],
        &["policy", "init", "--simulated-root", ROOT],
        &[],
    ] {
        desk.bad(2, arguments);
    }
    assert!(desk.good(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_is_missing_is_named() {
    let desk = desk();
    let errors = desk.bad(1, &["policy", "init", "-n", "demo", "--name", "demo", "--peer", "a"]);
    assert!(errors.contains("--owner-key"), "{errors}");
    let errors = desk.bad(1, &["policy", "init", "--peer", "a"]);
    assert!(errors.contains("--name is needed"), "{errors}");
    let many = [
        "policy",
        "init",
        "-n",
        "demo",
        "--name",
        "demo",
        "--peer",
        "a",
        "--owner-key",
        "alice.pem",
        "--threshold",
        "2",
    ];
    assert!(desk.bad(1, &many).contains("more signatures than there are owners"));
    let errors = desk.bad(1, &["policy", "show", "nothing.json"]);
    assert!(errors.contains("cannot read nothing.json"), "{errors}");
    let errors = desk.bad(1, &["policy", "sign", "--key", "nothing.pem", "alice.pem"]);
    assert!(errors.contains("alice.pem"), "{errors}");
    for command in ["status", "check"] {
        assert!(desk.bad(1, &[command]).contains("kubeconfig"), "{command}");
    }
}

#[test]
fn names_images_and_keys_are_told_in_full() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let image = |byte: &str| format!("registry.example/team/ranker@sha256:{}", byte.repeat(32));
    let measurement = format!("{}{}", "a0".repeat(8), "b0".repeat(40));
    let peers = ["recommendation-ranker-east", "recommendation-ranker-west"];
    desk.edit("policy.json", |draft| {
        draft["peers"]["embedder"]["entries"] = json!([{
            "kind": "SevSnp",
            "assurance": "Node",
            "measurements": [measurement],
            "minTcb": {"snp": 1},
            "workload": {"serviceAccount": "ranker", "images": [image("01"), image("02")]},
        }]);
        for (peer, byte) in peers.iter().zip(["03", "04"]) {
            let keys = json!([byte.repeat(32), format!("{}ff", byte.repeat(31))]);
            draft["peers"][peer] = json!({"entries": [{"kind": "Key", "publicKeys": keys}]});
        }
        draft["sessions"] = json!([{"from": "embedder", "to": peers, "stream": {}}]);
        draft["auditors"] = json!({"publicKeys": ["05".repeat(32)]});
    });
    let shown = desk.good(&["policy", "show", "policy.json"]);
    for said in [
        format!("images {} or {}\n", image("01"), image("02")),
        format!("its key is one of: {} or {}ff\n", "03".repeat(32), "03".repeat(31)),
        format!("embedder -> {} or {}: tensor streams", peers[0], peers[1]),
        format!("without a session by: {}\n", "05".repeat(32)),
        // What evidence states is compared as a whole by whoever judges it.
        format!("with measurement {}…\n", "a0".repeat(8)),
    ] {
        assert!(shown.contains(&said), "{said}: {shown}");
    }
}

#[test]
fn an_entry_for_nitro_is_told_in_words() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let pcr = |byte: &str| byte.repeat(48);
    desk.edit("policy.json", |draft| {
        draft["peers"]["embedder"]["entries"] = json!([{
            "kind": "Nitro",
            "assurance": "Pod",
            "measurements": [{"pcr0": pcr("a0"), "pcr1": pcr("a1"), "pcr2": pcr("a2")}],
        }, {
            "kind": "Nitro",
            "assurance": "Pod",
            "measurements": [{
                "pcr0": pcr("b0"), "pcr1": pcr("b1"), "pcr2": pcr("b2"),
                "pcr3": pcr("b3"), "pcr4": pcr("b4"), "pcr8": pcr("b8"),
            }],
            "moduleIds": ["i-1-enc1"],
            "maxAgeSeconds": 60,
            "allowDebug": true,
        }]);
    });
    let shown = desk.good(&["policy", "show", "policy.json"]);
    for said in [
        "an AWS Nitro Enclaves enclave: the workload runs inside of it",
        "PCR0 a0a0",
        "PCR1 a1a1",
        "PCR2 a2a2",
        "its document is at most 300 s old when it is shown",
        "refused: enclaves in debug mode, which measure nothing",
        "NOT PINNED, any value is accepted and shown as Degraded: measurements[].pcr3",
        "PCR3 (role of the parent instance) b3b3",
        "PCR4 (parent instance) b4b4",
        "PCR8 (signer of the image) b8b8",
        "as the module i-1-enc1",
        "at most 60 s old",
        "ALLOWED: enclaves in debug mode",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

#[test]
fn an_entry_for_tdx_is_told_in_words() {
    let desk = desk();
    desk.draft_simulated("policy.json", &OWNERS);
    let register = |byte: &str| byte.repeat(48);
    desk.edit("policy.json", |draft| {
        let mut plain = json!({
            "kind": "Tdx",
            "assurance": "Pod",
            "measurements": [{
                "mrtd": register("a0"), "rtmr0": register("a1"), "rtmr1": register("a2"), "rtmr2": register("a3"),
            }],
            "tcbStatuses": ["UpToDate"],
        });
        let mut full = plain.clone();
        full["measurements"][0]["rtmr3"] = json!(register("b4"));
        for (member, value) in [
            ("tcbStatuses", json!(["SoftwareHardeningNeeded", "UpToDate"])),
            ("minTcbEvaluation", json!(20)),
            ("mrConfigId", json!([register("b5")])),
            ("mrOwner", json!([register("b6")])),
            ("mrOwnerConfig", json!([register("b7")])),
            ("mrServiceTd", json!([register("b8")])),
            ("fmspcs", json!(["b0c06f000000"])),
            ("attributes", json!(["0000001000000000"])),
            ("xfam", json!(["e702060000000000"])),
            ("allowSmt", json!(true)),
            ("allowCachedKeys", json!(true)),
        ] {
            full[member] = value;
        }
        for permission in ["allowDebug", "allowAnyInitdata"] {
            plain[permission] = json!(true);
        }
        draft["peers"]["embedder"]["entries"] = json!([plain, full]);
    });
    let shown = desk.good(&["policy", "show", "policy.json"]);
    for said in [
        "an Intel TDX guest: the pod itself is the confidential VM",
        "MRTD a0a0",
        "RTMR0 a1a1",
        "RTMR2 a3a3",
        "ALLOWED: any initdata, so any pod of this guest image, debugging or profiling by the host\n",
        "measurements[].rtmr3, mrConfigId, mrOwner, mrOwnerConfig, fmspcs, minTcbEvaluation",
        "with firmware that Intel calls UpToDate\n",
        "RTMR3 b4b4",
        "with firmware that Intel calls SoftwareHardeningNeeded or UpToDate",
        "judged by Intel's TCB evaluation 20 or later",
        "(MRCONFIGID: the hash of the initdata) of b5b5",
        "(MROWNER) of b6b6",
        "(MROWNERCONFIG) of b7b7",
        "a service TD (MRSERVICETD) of b8b8",
        "(FMSPC) b0c06f000000",
        "(TDATTRIBUTES) 0000001000000000",
        "(XFAM) e702060000000000",
        "ALLOWED: platform keys kept by Intel's registration service, SMT shared with other guests, service TDs",
        "#VE exceptions raised by the host (SEPT_VE_DISABLE not set), performance counters in the guest, Key Locker",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

#[test]
fn auditors_are_listed_kept_and_dropped() {
    let desk = desk();
    let made = desk.good(&["policy", "keygen", "--auditor", "--out", "auditor.pem", "-o", "json"]);
    let public = serde_json::from_str::<Value>(&made).unwrap()["publicKey"].clone();
    let other = "0b".repeat(32);
    desk.draft_simulated(
        "1.json",
        &[&OWNERS[..], &["--auditor", "auditor.pem", "--auditor", &other]].concat(),
    );
    let listed = desk.json("1.json")["auditors"]["publicKeys"].as_array().unwrap().clone();
    assert!(listed.contains(&public) && listed.contains(&json!(other)) && listed.len() == 2, "{listed:?}");
    let shown = desk.good(&["policy", "show", "1.json"]);
    assert!(shown.contains("evidence may be asked for without a session by"), "{shown}");
    for owner in ["alice", "bob"] {
        desk.sign(owner, "1.json");
    }
    desk.draft_simulated("2.json", &["--after", "1.json"]);
    assert_eq!(
        desk.json("2.json")["auditors"]["publicKeys"],
        json!(listed),
        "an epoch forgets nobody by itself"
    );
    desk.draft_simulated("3.json", &["--after", "1.json", "--no-auditors"]);
    assert_eq!(desk.json("3.json").get("auditors"), None);
    desk.draft_simulated("4.json", &["--after", "1.json", "--auditor", &other]);
    assert_eq!(desk.json("4.json")["auditors"]["publicKeys"], json!([other]));
}

#[test]
fn simulated_platforms_of_each_form_are_pinned_whole() {
    let desk = desk();
    let (tdx, nitro) = (format!("Tdx={}", "0c".repeat(32)), format!("Nitro={}", "0d".repeat(32)));
    let roots = ["--simulated-root", &tdx, "--simulated-root", &nitro];
    let forms = ["--simulated-form", "embedder=Tdx", "--simulated-form", "ranker=Nitro"];
    desk.draft_simulated("policy.json", &[&OWNERS[..], &roots, &forms].concat());
    let peers = desk.json("policy.json")["peers"].clone();
    let entry = |peer: &str| peers[peer]["entries"][0].clone();
    assert_eq!(
        (&entry("embedder")["form"], &entry("embedder")["root"]),
        (&json!("Tdx"), &json!("0c".repeat(32)))
    );
    assert!(
        entry("embedder")["mrConfigId"].is_array() && entry("ranker")["measurements"][0]["pcr3"].is_string()
    );
    // What was drafted may be signed as it is, and leaves nothing open.
    desk.sign("alice", "policy.json");
    let shown = desk.good(&["policy", "show", "policy.json"]);
    assert!(shown.contains("in the form of Tdx") && shown.contains("in the form of Nitro"), "{shown}");
    assert!(!shown.contains("NOT PINNED"), "{shown}");

    let init = ["policy", "init", "--namespace", "demo", "--name", "demo", "--peer", "a", "--simulated"];
    let given = ["--simulated-root", ROOT, "--owner-key", "alice.pem"];
    let errors = desk.bad(1, &[&init[..], &given, &["--simulated-form", "a=Tdx"]].concat());
    assert!(errors.contains("--simulated-root Tdx=HEX"), "{errors}");
    let errors = desk.bad(1, &[&init[..], &given, &["--simulated-form", "b=Tdx"]].concat());
    assert!(errors.contains("names b, which is not one of the Peers"), "{errors}");
}
