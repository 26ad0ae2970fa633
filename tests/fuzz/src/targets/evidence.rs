//! Evidence: the message that carries it, the report inside, the certificates beside it, and the collateral that it is
//! held against.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{
    Anchor, ChainCache, Collateral, Evidence, EvidenceMessage, Format, Revocation, inspect, inspect_with,
};
use sealane_fixtures::keys::AUTHORITY;
use sealane_simulated::forge::{Dates, Recipe};
use sealane_types::{Platform, Product, UnixSeconds};
use serde_json::Value;

use crate::edit::edits;
use crate::script::Script;

/// Evidence messages: one encoding.
pub(super) fn message(data: &[u8]) {
    if let Ok(message) = EvidenceMessage::decode(data) {
        assert_eq!(message.encode().as_deref(), Ok(data), "what is accepted encodes to the same bytes");
        let evidence = message.evidence.encode().unwrap();
        assert_eq!(Evidence::decode(&evidence).as_ref(), Ok(&message.evidence));
    }
    if let Ok(evidence) = Evidence::decode(data) {
        assert_eq!(evidence.encode().as_deref(), Ok(data), "what is accepted encodes to the same bytes");
    }
}

/// Genuine evidence with the moment at which it is accepted.
struct Genuine {
    evidence: Evidence,
    collateral: Collateral,
    now: UnixSeconds,
}

/// A real Milan, and the simulated one of the vectors.
static GENUINE: LazyLock<[Genuine; 2]> = LazyLock::new(|| {
    let milan = Genuine {
        evidence: Evidence {
            format: Format::SevSnp,
            report: include_bytes!("../../../../protocol/attestation/tests/snp/milan-v2-vcek.report")
                .to_vec(),
            certificates: vec![
                include_bytes!("../../../../protocol/attestation/tests/snp/milan-v2-vcek.vcek.der").to_vec(),
            ],
        },
        collateral: Collateral::builtin(),
        now: UnixSeconds(1_795_132_800),
    };
    let vectors: Value = serde_json::from_str(include_str!("../../../vectors/evidence.json")).unwrap();
    let simulated = &vectors["simulated"];
    let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let simulated = Genuine {
        evidence: Evidence {
            format: Format::SimulatedSevSnp,
            report: decode(&simulated["report"]),
            certificates: simulated["certificates"].as_array().unwrap().iter().map(decode).collect(),
        },
        collateral: Collateral::empty().allowing_simulated(),
        now: UnixSeconds(simulated["now"].as_u64().unwrap()),
    };
    [milan, simulated]
});

/// First byte: which evidence. Then changes to its report and certificates.
pub(super) fn report(data: &[u8]) {
    let mut script = Script::new(data);
    let Some(first) = script.byte() else { return };
    let genuine = &GENUINE[usize::from(first & 1)];
    let mut chains = ChainCache::new();
    let claims = inspect_with(&mut chains, &genuine.evidence, &genuine.collateral, genuine.now).unwrap();
    let mut evidence = genuine.evidence.clone();
    for edit in edits(&mut script) {
        match edit.place & 3 {
            0 => edit.apply(&mut evidence.report),
            1 => {
                let index = usize::from(edit.place >> 2) % evidence.certificates.len();
                edit.apply(&mut evidence.certificates[index]);
            }
            2 => evidence.certificates.rotate_left(1),
            _ => evidence.certificates.truncate(1.max(usize::from(edit.place >> 2) % 4)),
        }
    }
    let outcome = inspect(&evidence, &genuine.collateral, genuine.now);
    let known = inspect_with(&mut chains, &evidence, &genuine.collateral, genuine.now);
    assert_eq!(known, outcome, "what is known of the genuine chain changes no verdict");
    let Ok(accepted) = outcome else { return };
    assert_eq!(evidence.report, genuine.evidence.report, "a changed report was accepted");
    assert_eq!(evidence.certificates.first(), genuine.evidence.certificates.first(), "another signing key");
    if evidence.platform() == Platform::Simulated && evidence.certificates != genuine.evidence.certificates {
        // A root's own signature says nothing: it is its fingerprint that a policy pins.
        assert_ne!(accepted.root(), claims.root(), "another root under the same fingerprint");
    }
}

/// A chain under AMD's names and keys of our own, with the list that its root issued: made once per process.
struct Listed {
    ark: Vec<u8>,
    ask: Vec<u8>,
    list: Vec<u8>,
    evidence: Evidence,
    now: UnixSeconds,
}

static LISTED: LazyLock<Listed> = LazyLock::new(|| {
    let recipe = Recipe { marked: false, ..Recipe::new(Product::Genoa).unwrap() };
    let material = AUTHORITY.issue(&recipe).unwrap();
    let now = sealane_support::world::wall_clock();
    let at = Duration::from_secs(now.0);
    let dates = Dates { from: at - Duration::from_secs(60), until: at + Duration::from_secs(3600) };
    let list = AUTHORITY.revocation_list(&recipe, dates, false).unwrap();
    let [_, ask, ark] = material.certificates();
    let (ark, ask) = (ark.to_vec(), ask.to_vec());
    let guest = sealane_simulated::Platform::new(material, None).unwrap();
    let quote = guest.quote([7; 64]).unwrap();
    let evidence =
        Evidence { format: Format::SevSnp, report: quote.report, certificates: quote.certificates };
    Listed { ark, ask, list, evidence, now }
});

/// First byte below 0x80: changes to root, issuer and revocation list. Else: those three, each behind its length.
pub(super) fn collateral(data: &[u8]) {
    let mut script = Script::new(data);
    let Some(first) = script.byte() else { return };
    let listed = &*LISTED;
    let mut parts = [listed.ark.clone(), listed.ask.clone(), listed.list.clone()];
    if first < 0x80 {
        for edit in edits(&mut script) {
            edit.apply(&mut parts[usize::from(edit.place) % 3]);
        }
    } else {
        for part in &mut parts {
            if let Some(given) = script.part().filter(|given| !given.is_empty()) {
                *part = given.to_vec();
            }
        }
    }
    let [ark, ask, list] = &parts;
    let Ok(anchor) = Anchor::new(ark, ask) else { return };
    let Ok(anchor) = anchor.with_revocation_list(list) else { return };
    let collateral = Collateral::empty().with_anchor(anchor);
    let Ok(claims) = inspect(&listed.evidence, &collateral, listed.now) else { return };
    // Who pins a root vouches for it, so only what it signed can be held against it.
    assert_eq!(ask, &listed.ask, "an issuer that the root did not certify");
    assert_eq!(claims.revocation(), Revocation::Checked);
    assert_eq!(list, &listed.list, "a list that the root did not sign");
}
