//! A simulated Nitro platform: made, kept as JSON, quoted from.

use aws_lc_rs::digest::{SHA384, digest};
use sealane_simulated::nitro::{Enclave, Material, measurements, register};
use sealane_simulated::{MEASUREMENT, SimulationError};

#[test]
fn measurements_are_the_hashes_of_their_texts() {
    let [image, kernel, application] = measurements();
    assert_eq!(image, MEASUREMENT);
    assert_eq!(kernel.as_bytes().as_slice(), digest(&SHA384, b"sealane simulated kernel 1").as_ref());
    assert_eq!(
        application.as_bytes().as_slice(),
        digest(&SHA384, b"sealane simulated application 1").as_ref()
    );
}

#[test]
fn a_register_is_extended_once() {
    let extended = [&[0; 48][..], digest(&SHA384, b"role").as_ref()].concat();
    assert_eq!(register(b"role").as_bytes().as_slice(), digest(&SHA384, &extended).as_ref());
}

#[test]
fn material_survives_its_json_and_quotes() {
    let material = Material::generate().unwrap();
    let text = material.to_json().unwrap();
    assert!(text.contains("proves nothing"));
    let again = Material::from_json(&text).unwrap();
    assert_eq!(again.fingerprint(), material.fingerprint());
    assert_eq!(again.chain().certificates(), material.chain().certificates());
    assert!(!format!("{again:?}").contains("key"));

    let enclave = Enclave::new(again, Some(b"role"));
    let document = enclave.document(&[7; 64], &[8; 32], &[9; 32]).unwrap();
    assert_eq!(document.pcrs[&3], register(b"role").as_bytes());
    assert_eq!(document.user_data.as_deref(), Some([7; 64].as_slice()));
    assert_eq!(document.nonce.as_deref(), Some([8; 32].as_slice()));
    assert_eq!(document.public_key.as_deref(), Some([9; 32].as_slice()));
    let quote = enclave.quote(&[7; 64], &[8; 32], &[9; 32]).unwrap();
    assert_eq!(quote[..7], [0x84, 0x44, 0xa1, 0x01, 0x38, 0x22, 0xa0]);
}

#[test]
fn another_text_is_refused() {
    assert!(matches!(Material::from_json("{}"), Err(SimulationError::Material(_))));
    assert!(matches!(Material::from_json(&" ".repeat(70_000)), Err(SimulationError::MaterialSize(_))));
}
