//! Entries for SEV-SNP: what they may insist on and permit, and what owners are told about them.

use sealane_policy::{Advice, Finding, PolicyError, Reference, SnpReference, advice, parse};
use sealane_types::{MitigationVector, Product, SnpProtection};
use serde_json::{Value, json};

use crate::support::*;

const PROVIDER: &str = "CN=cc-us-east-2.amazonaws.com";

fn with(change: impl Fn(&mut Value)) -> Value {
    let mut document = document(1);
    change(&mut document["peers"]["ranker"]["entries"][0]);
    document
}

/// What the entry of `ranker` pins after `change`.
fn reference(change: impl Fn(&mut Value)) -> SnpReference {
    let document = parse(&bytes(&with(change))).unwrap();
    assert_eq!(parse(&document.to_bytes()).unwrap(), document, "what is written reads back");
    match &document.peers[&"ranker".parse().unwrap()].entries[0].reference {
        Reference::SevSnp(snp) => snp.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(change: impl Fn(&mut Value), what: &str) -> PolicyError {
    let error = parse(&bytes(&with(change))).unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
    error
}

#[test]
fn demands_read_as_written() {
    let demands = reference(|entry| {
        entry["require"] = json!(["AliasCheck", "PageSwapDisabled"]);
        entry["requireMitigations"] = json!("0000000000000105");
        entry["idKeyDigests"] = json!(["01".repeat(48)]);
        entry["authorKeyDigests"] = json!(["02".repeat(48)]);
        entry["familyIds"] = json!(["03".repeat(16)]);
        entry["imageIds"] = json!(["04".repeat(16)]);
        entry["minGuestSvn"] = json!(4_294_967_295_u64);
        (entry["allowCxl"], entry["allowTio"]) = (json!(true), json!(true));
        entry["allowMilan"] = json!(true);
        entry["allowPlatformInfoBits"] = json!([8, 63]);
        (entry["allowVlek"], entry["vlekProviders"]) = (json!(true), json!([PROVIDER]));
    });
    assert_eq!(demands.protections, [SnpProtection::AliasCheck, SnpProtection::PageSwapDisabled].into());
    assert_eq!(demands.mitigations.map(|vector| vector.bits()), Some(0x105));
    assert_eq!(demands.identity.min_guest_svn, Some(u32::MAX));
    assert_eq!(demands.vlek_providers, [PROVIDER.to_owned()].into());
    assert!(demands.permissions.cxl && demands.permissions.tio && demands.permissions.milan);
    assert_eq!(demands.permissions.platform_bits, 1 << 8 | 1 << 63);
    assert!(!demands.accepts_any_provider());
    assert_eq!(MitigationVector::from_bits(0x105).to_string(), "0000000000000105");
}

#[test]
fn wrong_demands_are_named() {
    let cases = [
        ("require", json!(["Everything"]), "one of AliasCheck, Ecc, Tsme"),
        ("allowPlatformInfoBits", json!([7]), "from 8 to 63"),
        ("allowPlatformInfoBits", json!([64]), "from 8 to 63"),
        ("require", json!(["Ecc", "Ecc"]), "repeats"),
        ("requireMitigations", json!(1), "expected a text"),
        ("requireMitigations", json!("0000000000000000"), "not all zero"),
        ("requireMitigations", json!("1"), "16 lower-case hex digits"),
        ("idKeyDigests", json!(["01"]), "96 lower-case hex digits"),
        ("authorKeyDigests", json!(["01"]), "96 lower-case hex digits"),
        ("familyIds", json!(["01"]), "32 lower-case hex digits"),
        ("imageIds", json!(["01"]), "32 lower-case hex digits"),
        ("minGuestSvn", json!(4_294_967_296_u64), "from 0 to 4294967295"),
        ("vlekProviders", json!([""]), "provider's id"),
        ("vlekProviders", json!(["x".repeat(128)]), "provider's id"),
        ("vlekProviders", json!(["CN=é"]), "provider's id"),
    ];
    for (name, value, what) in cases {
        let error = refused(|entry| entry[name] = value.clone(), what);
        assert!(error.to_string().contains(&format!("peers.ranker.entries[0].{name}")), "{error}");
    }
}

/// Whoever starts a guest chooses its labels and version; a pinned key makes them somebody's word.
#[test]
fn labels_and_versions_are_pinned_under_a_key() {
    for (name, value) in [
        ("familyIds", json!(["03".repeat(16)])),
        ("imageIds", json!(["03".repeat(16)])),
        ("minGuestSvn", json!(1)),
    ] {
        let error = refused(|entry| entry[name] = value.clone(), "idKeyDigests");
        let PolicyError::Lint(findings) = error else { panic!("{error}") };
        assert!(matches!(&findings[..], [Finding::UnsignedIdentity { entry: 0, .. }]), "{findings:?}");
        for key in ["idKeyDigests", "authorKeyDigests"] {
            reference(|entry| {
                entry[name] = value.clone();
                entry[key] = json!(["01".repeat(48)]);
            });
        }
    }
}

#[test]
fn a_pod_is_told_by_its_initdata() {
    // Another measurement keeps the two Peers apart whatever else is open.
    let open = |entry: &mut Value| {
        entry["measurements"] = json!(["cd".repeat(48)]);
        entry.as_object_mut().unwrap().remove("hostData");
    };
    let error = refused(open, r#"hostData` pins no initdata"#);
    let PolicyError::Lint(findings) = error else { panic!("{error}") };
    assert!(matches!(&findings[..], [Finding::InitdataOpen { entry: 0, .. }]), "{findings:?}");
    let any = reference(|entry| {
        open(entry);
        entry["allowAnyInitdata"] = json!(true);
    });
    assert!(any.any_initdata && any.host_data.is_empty());
    // Of a node it says nothing about the pod, which the node agent states.
    reference(|entry| {
        open(entry);
        (entry["assurance"], entry["workload"]) = (json!("Node"), json!({"serviceAccount": "ranker"}));
    });
}

#[test]
fn milan_is_named_where_it_is_permitted() {
    for products in [json!(["Milan"]), json!(["Genoa", "Milan"])] {
        let error = refused(|entry| entry["products"] = products.clone(), r#""allowMilan": true"#);
        let PolicyError::Lint(findings) = error else { panic!("{error}") };
        assert!(matches!(&findings[..], [Finding::MilanNotPermitted { entry: 0, .. }]), "{findings:?}");
        reference(|entry| (entry["products"], entry["allowMilan"]) = (products.clone(), json!(true)));
    }
}

#[test]
fn providers_are_named_where_their_keys_are_permitted() {
    let error = refused(|entry| entry["vlekProviders"] = json!([PROVIDER]), "allowVlek");
    let PolicyError::Lint(findings) = error else { panic!("{error}") };
    assert!(matches!(&findings[..], [Finding::ProviderNotPermitted { entry: 0, .. }]), "{findings:?}");
    assert!(reference(|entry| entry["allowVlek"] = json!(true)).accepts_any_provider());
    let longest = "x".repeat(127);
    let named = reference(|entry| {
        (entry["allowVlek"], entry["vlekProviders"]) = (json!(true), json!([longest]));
    });
    assert_eq!(named.vlek_providers, [longest].into());
}

#[test]
fn guest_identities_tell_peers_apart() {
    for name in ["idKeyDigests", "authorKeyDigests", "familyIds", "imageIds"] {
        let digits = if name.ends_with("Digests") { 48 } else { 16 };
        let twins = |second: &str| {
            let mut twins = document(1);
            for (peer, value) in [("embedder", "01"), ("ranker", second)] {
                let mut entry = snp(2);
                entry["idKeyDigests"] = json!(["07".repeat(48)]);
                entry[name] = json!([value.repeat(digits)]);
                twins["peers"][peer]["entries"] = json!([entry]);
            }
            parse(&bytes(&twins))
        };
        assert!(twins("02").is_ok(), "{name}");
        assert!(matches!(twins("01"), Err(PolicyError::Lint(_))), "{name}");
    }
}

/// A policy that is complete under an earlier release stays so: which demands make sense differs from machine to
/// machine, so none of them is missed.
#[test]
fn no_demand_is_missed_by_a_complete_document() {
    let mut complete = document(1);
    complete["floors"] = json!({"complete": true});
    complete["peers"]["ranker"]["entries"][0]["allowVlek"] = json!(true);
    parse(&bytes(&complete)).unwrap();
}

fn told(change: impl Fn(&mut Value)) -> Vec<Advice> {
    let mut document = document(1);
    document["peers"].as_object_mut().unwrap().remove("embedder");
    document["sessions"] = json!([]);
    change(&mut document["peers"]["ranker"]["entries"][0]);
    advice(&parse(&bytes(&document)).unwrap())
}

#[test]
fn owners_are_told_what_they_may_not_have_meant() {
    let calm = |entry: &mut Value| {
        (entry["products"], entry["require"]) = (json!(["Genoa"]), json!(["AliasCheck"]));
    };
    assert_eq!(told(calm), []);
    let one = |change: fn(&mut Value)| {
        let mut said = told(|entry| {
            calm(entry);
            change(entry);
        });
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].to_string().contains("peers.ranker.entries[0]"), "{}", said[0]);
        said.remove(0)
    };
    let said = one(|entry| {
        (entry["products"], entry["allowMilan"]) = (json!([Product::Milan.as_str()]), json!(true));
    });
    assert!(matches!(said, Advice::MilanForgeable { entry: 0, .. }), "{said:?}");
    assert!(said.to_string().contains("chipIds"), "{said}");
    assert_eq!(
        told(|entry| {
            calm(entry);
            (entry["products"], entry["allowMilan"]) = (json!(["Milan"]), json!(true));
            entry["chipIds"] = json!(["01".repeat(64)]);
        }),
        []
    );
    let said = one(|entry| entry["products"] = json!(["Turin"]));
    assert!(matches!(said, Advice::FmcOpen { .. }), "{said:?}");
    let said = one(|entry| {
        (entry["products"], entry["minTcb"]["fmc"]) = (json!(["Genoa", "Turin"]), json!(1));
    });
    assert!(matches!(said, Advice::FloorAcrossProducts { .. }), "{said:?}");
    let said = one(|entry| entry["allowVlek"] = json!(true));
    assert!(matches!(said, Advice::AnyProvider { .. }), "{said:?}");
    let provider = json!(["CN=cc-us-east-2.amazonaws.com"]);
    let shared = |entry: &mut Value| {
        calm(entry);
        (entry["allowVlek"], entry["vlekProviders"]) = (json!(true), provider.clone());
        entry["chipIds"] = json!(["01".repeat(64)]);
    };
    let said = told(shared);
    assert!(matches!(said[..], [Advice::ChipsUnderSharedKey { .. }]), "{said:?}");
    // A named chip is no answer to forged ones where its key is not asked for.
    let said = told(|entry| {
        shared(entry);
        (entry["products"], entry["allowMilan"]) = (json!(["Milan"]), json!(true));
    });
    assert!(matches!(said[0], Advice::MilanForgeable { .. }), "{said:?}");
    let said = one(|entry| entry["hostData"] = json!(["00".repeat(32)]));
    assert!(matches!(said, Advice::NoInitdata { member: "hostData", .. }), "{said:?}");
    let said = one(|entry| drop(entry.as_object_mut().unwrap().remove("require")));
    assert!(matches!(said, Advice::AliasesUnchecked { .. }), "{said:?}");
    // Without `products` a Milan that is permitted is accepted as well as any other.
    for allowed in [true, false] {
        let said = told(|entry| {
            entry.as_object_mut().unwrap().remove("products");
            entry["allowMilan"] = json!(allowed);
        });
        let warned = said.iter().any(|advice| matches!(advice, Advice::MilanForgeable { .. }));
        assert_eq!(warned, allowed, "{said:?}");
    }
}

#[test]
fn nothing_is_left_untold() {
    let mut long = document(1);
    let entry = |index: u8| {
        let mut entry = snp(2);
        entry["chipIds"] = json!([format!("{index:02x}").repeat(64)]);
        entry
    };
    long["peers"]["ranker"]["entries"] = (0..40).map(entry).collect();
    let said = advice(&parse(&bytes(&long)).unwrap());
    let unchecked = |advice: &&Advice| matches!(advice, Advice::AliasesUnchecked { .. });
    assert!(said.iter().filter(unchecked).count() >= 40, "{said:?}");
}

#[test]
fn nothing_is_told_about_simulations() {
    let simulated = json!({
        "kind": "Simulated", "root": "1b".repeat(32), "measurements": ["ef".repeat(48)], "hostData": ["1c".repeat(32)],
    });
    assert_eq!(told(|entry| *entry = simulated.clone()), []);
}
