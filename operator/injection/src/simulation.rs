//! The simulated platforms of an installation, as far as the operator needs to know them: it hands each pod the one of
//! its form, and looks no further into it.

use std::collections::BTreeMap;

use sealane_types::SimulatedForm;
use serde_json::{Value, json};

/// What injected sidecars get in their environment, in its shortest form, for each form of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation(BTreeMap<SimulatedForm, String>);

/// The member of the file that holds the platform of a form.
const fn member(form: SimulatedForm) -> &'static str {
    match form {
        SimulatedForm::SevSnp => "sevSnp",
        SimulatedForm::Tdx => "tdx",
        SimulatedForm::Nitro => "nitro",
    }
}

impl Simulation {
    /// Reads what `sealane-sidecar-sim root` writes. A file without members for forms is a platform of SEV-SNP.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let json: Value = serde_json::from_str(text)?;
        let part = |form| Some((form, json!({member(form): json.get(member(form))?}).to_string()));
        let parts: BTreeMap<_, _> = SimulatedForm::ALL.iter().copied().filter_map(part).collect();
        if parts.is_empty() {
            return Ok(Self([(SimulatedForm::SevSnp, json.to_string())].into()));
        }
        Ok(Self(parts))
    }

    /// What a pod of this form gets, if the installation has such a platform.
    #[must_use]
    pub fn of(&self, form: SimulatedForm) -> Option<&str> {
        self.0.get(&form).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_gets_its_own_platform_and_no_other() {
        let text = r#"{"note": "n", "sevSnp": {"key": 1}, "tdx": {"key": 2}}"#;
        let simulation = Simulation::parse(text).unwrap();
        assert_eq!(simulation.of(SimulatedForm::SevSnp), Some(r#"{"sevSnp":{"key":1}}"#));
        assert_eq!(simulation.of(SimulatedForm::Tdx), Some(r#"{"tdx":{"key":2}}"#));
        assert_eq!(simulation.of(SimulatedForm::Nitro), None);
    }

    #[test]
    fn a_platform_alone_is_one_of_sev_snp() {
        let simulation = Simulation::parse("{ \"ark\": \"x\" }").unwrap();
        assert_eq!(simulation.of(SimulatedForm::SevSnp), Some(r#"{"ark":"x"}"#));
        assert_eq!(simulation.of(SimulatedForm::Tdx), None);
        assert!(Simulation::parse("not json").is_err());
    }
}
