//! A second reader of CBOR: what the verifier accepts, `ciborium` reads to the same values and without a rest.

use std::fs;
use std::path::PathBuf;

use ciborium::Value;
use proptest::prelude::*;
use sealane_attestation::{Collateral, Evidence, Format, NitroClaims, inspect};
use sealane_types::UnixSeconds;

use super::support::{document, inspected, said, sealed};

/// One item that fills `bytes`.
fn decode(bytes: &[u8]) -> Value {
    let mut rest = bytes;
    let value = ciborium::from_reader(&mut rest).unwrap();
    assert!(rest.is_empty(), "{} bytes are left", rest.len());
    value
}

/// The payload of a COSE_Sign1.
fn payload(report: &[u8]) -> Vec<u8> {
    let [_, unprotected, payload, _] = decode(report).into_array().unwrap().try_into().unwrap();
    assert_eq!(unprotected.into_map().unwrap(), []);
    payload.into_bytes().unwrap()
}

/// The value of the only member with this name.
fn member<'v>(map: &'v [(Value, Value)], name: &str) -> Option<&'v Value> {
    let mut found = map.iter().filter(|(key, _)| key.as_text() == Some(name));
    let value = found.next().map(|(_, value)| value);
    assert!(found.next().is_none(), "{name} is there twice");
    value
}

/// Holds what was said against what the other reader says.
fn agree(said: &NitroClaims, report: &[u8]) {
    let map = decode(&payload(report)).into_map().unwrap();
    assert_eq!(member(&map, "module_id").and_then(Value::as_text), Some(said.module_id()));
    assert_eq!(member(&map, "digest").and_then(Value::as_text), Some("SHA384"));
    let timestamp = member(&map, "timestamp").and_then(Value::as_integer).unwrap();
    assert_eq!(u64::try_from(timestamp).unwrap() / 1000, said.timestamp().0);
    for (name, value) in
        [("user_data", said.user_data()), ("nonce", said.nonce()), ("public_key", said.public_key())]
    {
        assert_eq!(member(&map, name).and_then(Value::as_bytes).map(Vec::as_slice), value, "{name}");
    }
    let pcrs = member(&map, "pcrs").and_then(Value::as_map).unwrap();
    for (index, pcr) in pcrs {
        let index = u8::try_from(index.as_integer().unwrap()).unwrap();
        let said = said.pcr(index).unwrap();
        assert_eq!(pcr.as_bytes().unwrap().as_slice(), said.as_bytes().as_slice(), "{index}");
    }
    assert_eq!(pcrs.len(), (0..=u8::MAX).filter(|index| said.pcr(*index).is_some()).count());
}

#[test]
fn genuine_documents_read_the_same() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/nitro");
    for (name, now) in [("prod-2025.cbor", 1_736_179_680), ("debug-2021.cbor", 1_614_963_780)] {
        let report = fs::read(folder.join(name)).unwrap();
        let evidence = Evidence { format: Format::Nitro, report, certificates: vec![] };
        let claims = inspect(&evidence, &Collateral::builtin(), UnixSeconds(now)).unwrap();
        agree(said(&claims), &evidence.report);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// A few bytes of the payload are others, and it is signed all the same.
    #[test]
    fn changed_documents_read_the_same_or_not_at_all(
        open in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        // Most of a document is certificates, which do not survive a change: its head is changed more often.
        head in any::<bool>(),
    ) {
        let document = document();
        let mut payload = if open { document.open_payload() } else { document.payload() };
        let reach = if head { 100 } else { payload.len() };
        for (at, byte) in changes {
            payload[at.index(reach)] = byte;
        }
        let evidence = sealed(&payload);
        if let Ok(claims) = inspected(&evidence) {
            agree(said(&claims), &evidence.report);
        }
    }
}
