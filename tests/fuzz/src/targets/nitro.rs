//! Nitro documents: a genuine one that is changed, one that is changed before it is signed, and any bytes at all.

use std::sync::LazyLock;

use sealane_attestation::{Claims, Collateral, Evidence, Format, Rejection, Statement, inspect};
use sealane_simulated::nitro::{Chain, Enclave, Material, Recipe};
use sealane_types::UnixSeconds;

use crate::edit::{edits, encode};
use crate::script::Script;

/// A real document, and the moment at which it is accepted.
const GENUINE: &[u8] = include_bytes!("../../../../protocol/attestation/tests/nitro/prod-2025.cbor");
const GENUINE_NOW: UnixSeconds = UnixSeconds(1_736_179_680);

/// How an input is read: its first byte modulo four.
const CHANGED: u8 = 0;
const SIGNED: u8 = 1;
const REAL: u8 = 2;

/// A simulated enclave, made once per process, and the payload that it would sign.
struct Simulated {
    chain: Chain,
    payload: Vec<u8>,
    now: UnixSeconds,
}

static SIMULATED: LazyLock<Simulated> = LazyLock::new(|| {
    let chain = Chain::issue(&Recipe::new().unwrap()).unwrap();
    let enclave = Enclave::new(Material::from(chain.clone()), Some(b"role"));
    let document = enclave.document(&[7; 64], &[8; 32], &[9; 32]).unwrap();
    Simulated { chain, payload: document.payload(), now: sealane_support::world::wall_clock() }
});

/// First byte: how the rest is read.
pub(super) fn document(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 4 {
        CHANGED => changed(rest),
        SIGNED => signed(rest),
        REAL => {
            let outcome = judged(Format::Nitro, rest.to_vec(), GENUINE_NOW);
            assert!(outcome.is_err() || rest == GENUINE, "a document that AWS did not sign");
        }
        _ => check(judged(Format::SimulatedNitro, rest.to_vec(), SIMULATED.now)),
    }
}

fn judged(format: Format, report: Vec<u8>, now: UnixSeconds) -> Result<Claims, Rejection> {
    let evidence = Evidence { format, report, certificates: vec![] };
    inspect(&evidence, &Collateral::builtin().allowing_simulated(), now)
}

/// Changes to the genuine document.
fn changed(data: &[u8]) {
    let mut report = GENUINE.to_vec();
    edits(&mut Script::new(data)).into_iter().for_each(|edit| edit.apply(&mut report));
    let changed = report != GENUINE;
    let outcome = judged(Format::Nitro, report, GENUINE_NOW);
    assert_eq!(outcome.is_ok(), !changed, "a changed document was accepted, or the genuine one refused");
}

/// Changes to a payload that is signed all the same.
fn signed(data: &[u8]) {
    let simulated = &*SIMULATED;
    let mut payload = simulated.payload.clone();
    edits(&mut Script::new(data)).into_iter().for_each(|edit| edit.apply(&mut payload));
    check(judged(Format::SimulatedNitro, simulated.chain.seal(&payload).unwrap(), simulated.now));
}

/// What every accepted document has.
fn check(outcome: Result<Claims, Rejection>) {
    let Ok(claims) = outcome else { return };
    let Statement::Nitro(nitro) = claims.statement() else { panic!("{claims:?}") };
    assert!((0..3).all(|index| nitro.pcr(index).is_some()) && nitro.pcr(32).is_none());
    assert!(!nitro.module_id().is_empty());
    let whole = nitro.user_data().is_some_and(|data| data.len() == 64);
    assert_eq!(claims.report_data().is_some(), whole, "REPORT_DATA has 64 bytes or is none");
    for data in [nitro.user_data(), nitro.nonce(), nitro.public_key()] {
        assert!(data.is_none_or(|data| data.len() <= 1024));
    }
}

/// Where the corpus begins.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![CHANGED], vec![SIGNED]];
    // The envelope, a name, a PCR, a certificate, the bundle, the optional members, the signature.
    for (kind, at) in (0..).zip([0, 1, 6, 10, 90, 200, 1000, 1700, 4300, 4650, 4690]) {
        let changed = encode(0, kind, at, 1);
        seeds.extend([[vec![CHANGED], changed.clone()].concat(), [vec![SIGNED], changed].concat()]);
    }
    let genuine = |first: u8| [&[first], GENUINE].concat();
    seeds.extend([genuine(REAL), genuine(REAL + 1)]);
    // Lengths and nesting that nothing stands behind; a map without a length.
    for hostile in
        [&[0x84, 0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0x9f; 64], &[0xbf; 64]]
    {
        seeds.push([&[REAL], hostile].concat());
    }
    seeds
}
