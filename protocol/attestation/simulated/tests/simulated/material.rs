//! What an installation does with the material: make it, keep it as JSON, quote from it.

use aws_lc_rs::digest::{SHA256, SHA384, digest};
use sealane_simulated::{MEASUREMENT, Material, Platform, SimulationError, host_data};

#[test]
fn the_measurement_is_the_hash_of_its_text() {
    let hash = digest(&SHA384, b"sealane simulated guest 1");
    assert_eq!(MEASUREMENT.as_bytes().as_slice(), hash.as_ref());
}

#[test]
fn host_data_is_the_hash_of_initdata_or_nothing() {
    assert_eq!(host_data(Some(b"peer: a")).as_bytes().as_slice(), digest(&SHA256, b"peer: a").as_ref());
    assert_eq!(host_data(None).as_bytes(), &[0; 32]);
}

#[test]
fn material_survives_its_json_and_quotes() {
    let material = Material::generate().unwrap();
    let text = material.to_json().unwrap();
    assert!(text.contains("proves nothing"));
    let again = Material::from_json(&text).unwrap();
    assert_eq!(again.fingerprint(), material.fingerprint());
    assert_eq!(again.certificates(), material.certificates());
    assert!(!format!("{material:?}").contains("key"));

    let platform = Platform::new(again, Some(b"initdata")).unwrap();
    let quote = platform.quote([7; 64]).unwrap();
    assert_eq!(quote.report.len(), 1184);
    assert_eq!(quote.report[0x50..0x90], [7; 64]);
    assert_eq!(quote.report[0xc0..0xe0], *host_data(Some(b"initdata")).as_bytes());
    assert_eq!(quote.certificates, material.certificates().map(<[u8]>::to_vec));
}

#[test]
fn another_text_is_refused() {
    assert!(matches!(Material::from_json("{}"), Err(SimulationError::Material(_))));
    assert!(matches!(Material::from_json(&" ".repeat(70_000)), Err(SimulationError::MaterialSize(_))));
}
