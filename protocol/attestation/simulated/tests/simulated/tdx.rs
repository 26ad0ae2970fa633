//! What an installation does with the material of TDX: make it, keep it as JSON, quote from it.

use aws_lc_rs::digest::{SHA384, digest};
use sealane_simulated::SimulationError;
use sealane_simulated::tdx::{Body, Material, Platform, mr_config_id, rtmr};

#[test]
fn registers_are_hashes_of_their_texts() {
    assert_eq!(rtmr(1).as_bytes().as_slice(), digest(&SHA384, b"sealane simulated rtmr 1").as_ref());
    let configured = mr_config_id(Some(b"peer: a"));
    assert_eq!(configured.as_bytes().as_slice(), digest(&SHA384, b"peer: a").as_ref());
    assert_eq!(mr_config_id(None).as_bytes(), &[0; 48]);
}

#[test]
fn material_survives_its_json_and_quotes() {
    let material = Material::generate().unwrap();
    let text = material.to_json().unwrap();
    assert!(text.contains("proves nothing"));
    let again = Material::from_json(&text).unwrap();
    assert_eq!(again.fingerprint(), material.fingerprint());
    assert_eq!(again.chain(), material.chain());
    assert_eq!(again.collateral(), material.collateral());
    assert!(!format!("{material:?}").contains("SigningKey"));

    let platform = Platform::new(again, Some(b"initdata")).unwrap().quoting(Body::Td15);
    let quote = platform.quote([7; 64]).unwrap();
    assert_eq!(quote.report[..2], [5, 0]);
    let report = &quote.report[54..];
    assert_eq!(report[520..584], [7; 64]);
    assert_eq!(report[184..232], *mr_config_id(Some(b"initdata")).as_bytes());
    assert_eq!(quote.certificates, material.collateral());
}

#[test]
fn another_text_is_refused() {
    assert!(matches!(Material::from_json("{}"), Err(SimulationError::Material(_))));
    assert!(matches!(Material::from_json(&" ".repeat(70_000)), Err(SimulationError::MaterialSize(_))));
    let text = Material::generate().unwrap().to_json().unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["collateral"].as_array_mut().unwrap().pop();
    assert!(matches!(Material::from_json(&json.to_string()), Err(SimulationError::MaterialParts)));
}
