//! All forms of one installation: made together, kept as one JSON, quoted from.

use sealane_simulated::{Guest, Installation, Material, Request, SimulationError, host_data, nitro, tdx};
use sealane_types::SimulatedForm;

const REQUEST: Request = Request { report_data: [7; 64], tree_root: [8; 32], own_static: [9; 32] };

#[test]
fn every_form_survives_its_json_and_quotes() {
    let installation = Installation::generate().unwrap();
    let again = Installation::from_json(&installation.to_json().unwrap()).unwrap();
    for form in SimulatedForm::ALL {
        assert_eq!(again.fingerprint(*form), installation.fingerprint(*form));
        assert!(again.fingerprint(*form).is_some());
        let guest = Guest::new(&again, *form, Some(b"initdata")).unwrap();
        assert_eq!(guest.form(), *form);
        let report = guest.quote(&REQUEST).unwrap().report;
        let identity = match form {
            SimulatedForm::SevSnp => host_data(Some(b"initdata")).as_bytes().to_vec(),
            SimulatedForm::Tdx => tdx::mr_config_id(Some(b"initdata")).as_bytes().to_vec(),
            SimulatedForm::Nitro => nitro::register(b"initdata").as_bytes().to_vec(),
        };
        let holds = |part: &[u8]| report.windows(part.len()).any(|window| window == part);
        assert!(holds(&identity) && holds(&REQUEST.report_data), "{form}");
    }
    assert!(!format!("{again:?}").contains("key"));
}

#[test]
fn a_platform_of_old_is_kept_and_the_others_are_added() {
    let alone = Material::generate().unwrap();
    let old = Installation::from_json(&alone.to_json().unwrap()).unwrap();
    assert_eq!(old.fingerprint(SimulatedForm::SevSnp), Some(alone.fingerprint()));
    let missing = Guest::new(&old, SimulatedForm::Tdx, None).unwrap_err();
    assert!(matches!(missing, SimulationError::FormMissing(SimulatedForm::Tdx)), "{missing}");
    let completed = old.completed().unwrap();
    assert_eq!(completed.fingerprint(SimulatedForm::SevSnp), Some(alone.fingerprint()));
    assert!(completed.fingerprint(SimulatedForm::Tdx).is_some());
    let again = completed.clone().completed().unwrap();
    assert_eq!(again.fingerprint(SimulatedForm::Nitro), completed.fingerprint(SimulatedForm::Nitro));
}

#[test]
fn a_part_is_enough_for_its_form() {
    let nitro = nitro::Material::generate().unwrap();
    let part = format!("{{\"nitro\":{}}}", nitro.to_json().unwrap());
    let installation = Installation::from_json(&part).unwrap();
    assert_eq!(installation.fingerprint(SimulatedForm::Nitro), Some(nitro.fingerprint()));
    assert!(Guest::new(&installation, SimulatedForm::SevSnp, None).is_err());
}

#[test]
fn another_text_is_refused() {
    assert!(matches!(Installation::from_json("{}"), Err(SimulationError::MaterialParts)));
    assert!(Installation::from_json("{\"sgx\":{}}").is_err());
    assert!(Installation::from_json("{\"tdx\":{}}").is_err());
    let long = " ".repeat(200_000);
    assert!(matches!(Installation::from_json(&long), Err(SimulationError::MaterialSize(_))));
}
