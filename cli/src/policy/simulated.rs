//! What simulated guests show, in each form: the values that policies pin.
//!
//! They are constants of the simulated platforms, except for the identity, which is the digest of a pod's initdata where
//! each platform has room for it: HOST_DATA, MRCONFIGID, PCR3. Tests compare them with the platforms' own.

use std::collections::BTreeSet;

use aws_lc_rs::digest::{Context, SHA256, SHA384};
use sealane_policy::{
    NitroMeasurement, NitroReference, Reference, SnpReference, TdxMeasurement, TdxReference,
};
use sealane_types::{HostData, Measurement, SimulatedForm, TcbStatus};

/// Launch measurement of every simulated guest, SHA-384 of `sealane simulated guest 1`.
pub(crate) const MEASUREMENT: &str =
    "14196d12732ffc7307de8892823154bd7d5177bedf17fe676dfba9be7d61f5d7c9364e327fdbddfd62aa5b7c3b9e0da3";

const ZERO: Measurement = Measurement::new([0; 48]);

/// What guests with one of these measurements show that were started with `initdata`.
pub(super) fn reference(
    form: SimulatedForm,
    measurements: BTreeSet<Measurement>,
    initdata: &[u8],
) -> Reference {
    match form {
        SimulatedForm::SevSnp => Reference::SevSnp(SnpReference {
            measurements,
            host_data: [host_data(initdata)].into(),
            ..SnpReference::default()
        }),
        SimulatedForm::Tdx => {
            let rtmr = [0, 1, 2].map(|index| hash(&[format!("sealane simulated rtmr {index}").as_bytes()]));
            let measured = |mrtd| TdxMeasurement { mrtd, rtmr, rtmr3: Some(ZERO) };
            Reference::Tdx(TdxReference {
                measurements: measurements.into_iter().map(measured).collect(),
                mr_config_ids: [hash(&[initdata])].into(),
                mr_owners: [ZERO].into(),
                mr_owner_configs: [ZERO].into(),
                tcb_statuses: [TcbStatus::UpToDate].into(),
                ..TdxReference::default()
            })
        }
        SimulatedForm::Nitro => {
            let [kernel, application] = ["kernel", "application"]
                .map(|part| hash(&[format!("sealane simulated {part} 1").as_bytes()]));
            // A register that was extended once.
            let role = hash(&[ZERO.as_bytes(), hash(&[initdata]).as_bytes()]);
            let measured = |image| NitroMeasurement {
                image: [image, kernel, application],
                registers: [(NitroMeasurement::ROLE, role)].into(),
            };
            Reference::Nitro(NitroReference {
                measurements: measurements.into_iter().map(measured).collect(),
                ..NitroReference::default()
            })
        }
    }
}

fn host_data(initdata: &[u8]) -> HostData {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, initdata).as_ref());
    HostData::new(bytes)
}

/// SHA-384 of the parts, one after the other.
fn hash(parts: &[&[u8]]) -> Measurement {
    let mut hash = Context::new(&SHA384);
    parts.iter().for_each(|part| hash.update(part));
    let mut bytes = [0; 48];
    bytes.copy_from_slice(hash.finish().as_ref());
    Measurement::new(bytes)
}

#[cfg(test)]
mod tests {
    use sealane_simulated::{nitro, tdx};

    use super::*;

    const INITDATA: &[u8] = b"peer: a";

    fn of(form: SimulatedForm) -> Reference {
        reference(form, [MEASUREMENT.parse().unwrap()].into(), INITDATA)
    }

    #[test]
    fn the_values_are_the_platforms() {
        assert_eq!(MEASUREMENT, sealane_simulated::MEASUREMENT.to_string());
        let Reference::SevSnp(snp) = of(SimulatedForm::SevSnp) else { panic!("SEV-SNP") };
        assert_eq!(snp.host_data, [sealane_simulated::host_data(Some(INITDATA))].into());
        let Reference::Tdx(reference) = of(SimulatedForm::Tdx) else { panic!("TDX") };
        let measured = reference.measurements.first().unwrap();
        assert_eq!(measured.rtmr, [0, 1, 2].map(tdx::rtmr));
        assert_eq!(reference.mr_config_ids, [tdx::mr_config_id(Some(INITDATA))].into());
        let Reference::Nitro(reference) = of(SimulatedForm::Nitro) else { panic!("Nitro") };
        let measured = reference.measurements.first().unwrap();
        assert_eq!(measured.image, nitro::measurements());
        assert_eq!(measured.registers, [(NitroMeasurement::ROLE, nitro::register(INITDATA))].into());
    }

    #[test]
    fn nothing_that_a_simulation_shows_is_left_open() {
        for form in SimulatedForm::ALL {
            let entry = sealane_policy::Entry {
                assurance: sealane_types::Assurance::Simulated,
                root: Some(sealane_types::Digest::new([1; 32])),
                workload: None,
                unverified_workload: false,
                reference: of(*form),
            };
            assert_eq!(entry.absent(), [], "{form}");
        }
    }
}
