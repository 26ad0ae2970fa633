//! Which initdata a guest of SEV-SNP was started with, as its evidence shows.

use sealane_attestation::{Format, measures_initdata};

use crate::support::{INITDATA, MATERIAL, evidence, guest, inspected};

#[test]
fn host_data_is_the_hash_of_the_initdata() {
    let quote = guest(&MATERIAL).quote([7; 64]).unwrap();
    let claims = inspected(&evidence(Format::SimulatedSevSnp, quote)).unwrap();
    assert!(measures_initdata(&claims, INITDATA));
    for other in [&INITDATA[1..], &[INITDATA, b"\n"].concat(), b""] {
        assert!(!measures_initdata(&claims, other));
    }
}
