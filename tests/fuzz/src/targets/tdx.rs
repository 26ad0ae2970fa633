//! TDX: genuine quotes and collateral that are changed, quotes that are changed before they are signed, and any bytes.

use std::sync::LazyLock;

use sealane_attestation::{
    Claims, Collateral, Evidence, Format, Rejection, Statement, TdxCollateral, inspect,
};
use sealane_simulated::tdx::{Body, Material, Platform};
use sealane_types::UnixSeconds;

use crate::edit::{edits, encode};
use crate::script::Script;

/// A real quote with its collateral, and a moment at which it is accepted.
const QUOTE: &[u8] = include_bytes!("../../../../protocol/attestation/tests/tdx/v4.quote");
const COLLATERAL: &[u8] = include_bytes!("../../../../protocol/attestation/tests/tdx/v4.collateral.json");
const NOW: UnixSeconds = UnixSeconds(1_752_105_600);

/// How an input is read: its first byte modulo four.
const CHANGED: u8 = 0;
const SIGNED: u8 = 1;
const REAL: u8 = 2;

/// Made once per process.
struct World {
    collateral: Collateral,
    genuine: Claims,
    platform: Platform,
    /// By the platform.
    simulated: Evidence,
    now: UnixSeconds,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let tdx = TdxCollateral::from_json(COLLATERAL).unwrap();
    let collateral = Collateral::empty().with_tdx(tdx).allowing_simulated();
    let genuine = inspect(&real(QUOTE), &collateral, NOW).unwrap();
    let platform = Platform::new(Material::generate().unwrap(), Some(b"role")).unwrap().quoting(Body::Td15Ex);
    let quote = platform.quote([7; 64]).unwrap();
    let simulated =
        Evidence { format: Format::SimulatedTdx, report: quote.report, certificates: quote.certificates };
    World { collateral, genuine, platform, simulated, now: sealane_support::world::wall_clock() }
});

fn real(quote: &[u8]) -> Evidence {
    Evidence { format: Format::Tdx, report: quote.to_vec(), certificates: vec![] }
}

fn judged(evidence: &Evidence) -> Result<Claims, Rejection> {
    let now = if evidence.format == Format::Tdx { NOW } else { WORLD.now };
    inspect(evidence, &WORLD.collateral, now)
}

/// First byte: how the rest is read.
pub(super) fn quote(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 4 {
        CHANGED => changed(rest),
        SIGNED => signed(rest),
        REAL => {
            let outcome = judged(&real(rest));
            assert!(outcome.is_err() || rest == QUOTE, "a quote that no platform of Intel's signed");
        }
        _ => check(judged(&Evidence { report: rest.to_vec(), ..WORLD.simulated.clone() })),
    }
}

/// Changes to the genuine quote.
fn changed(data: &[u8]) {
    let mut quote = QUOTE.to_vec();
    edits(&mut Script::new(data)).into_iter().for_each(|edit| edit.apply(&mut quote));
    match judged(&real(&quote)) {
        // The lines in which its certificates are written are nobody's statement.
        Ok(claims) => assert_eq!(claims, WORLD.genuine, "a changed quote was accepted"),
        Err(rejection) => assert_ne!(quote, QUOTE, "{rejection:?}"),
    }
}

/// Changes to what is signed all the same.
fn signed(data: &[u8]) {
    let changes = edits(&mut Script::new(data));
    let quote = WORLD.platform.quote_edited([7; 64], |draft| {
        for edit in changes {
            match edit.place % 5 {
                0 | 1 => edit.apply(&mut draft.report),
                2 => edit.apply(&mut draft.descriptor),
                3 => edit.apply(&mut draft.authentication_data),
                _ => edit.apply(&mut draft.chain),
            }
        }
    });
    check(judged(&Evidence { report: quote.unwrap().report, ..WORLD.simulated.clone() }));
}

/// What every accepted quote has.
fn check(outcome: Result<Claims, Rejection>) {
    let Ok(claims) = outcome else { return };
    let Statement::Tdx(tdx) = claims.statement() else { panic!("{claims:?}") };
    assert!(matches!(tdx.quote_version(), 4 | 5));
    assert_eq!(tdx.statuses().first(), claims.tcb_status().as_ref());
    assert!(claims.report_data().is_some() && tdx.measurement().rtmr3.is_some());
    assert!(tdx.service_tds().iter().all(|hash| *hash.as_bytes() != [0; 48]));
}

/// The first byte, modulo four, says what follows: the collateral itself, changes to a simulation's, or, for the other
/// two values, changes to genuine collateral.
pub(super) fn collateral(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 4 {
        REAL => held(rest),
        SIGNED => brought(rest),
        _ => {
            let mut text = COLLATERAL.to_vec();
            edits(&mut Script::new(rest)).into_iter().for_each(|edit| edit.apply(&mut text));
            held(&text);
        }
    }
}

/// Whoever changes collateral changes nothing that Intel says.
fn held(text: &[u8]) {
    let Ok(tdx) = TdxCollateral::from_json(text) else { return };
    let Ok(claims) = inspect(&real(QUOTE), &Collateral::empty().with_tdx(tdx), NOW) else { return };
    assert_eq!(claims, WORLD.genuine);
}

/// Changes to the collateral that simulated evidence brings.
fn brought(data: &[u8]) {
    let mut evidence = WORLD.simulated.clone();
    for edit in edits(&mut Script::new(data)) {
        let part = usize::from(edit.place) % evidence.certificates.len();
        edit.apply(&mut evidence.certificates[part]);
    }
    let changed = evidence != WORLD.simulated;
    assert_eq!(
        judged(&evidence).is_ok(),
        !changed,
        "changed collateral was accepted, or the genuine refused"
    );
}

/// Where the corpora begin.
pub(crate) fn quotes() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![CHANGED], vec![SIGNED], vec![REAL], vec![REAL + 1]];
    // Header, report, signatures, enclave's report, authentication data, chain.
    for (kind, at) in (0..).zip([0, 4, 48, 168, 560, 632, 640, 770, 1150, 1230, 1300, 2900, 4930]) {
        let change = encode(kind, kind, at, 1);
        seeds.extend([[vec![CHANGED], change.clone()].concat(), [vec![SIGNED], change].concat()]);
    }
    seeds.push([&[REAL], QUOTE].concat());
    seeds.push([&[REAL + 1], &QUOTE[..700]].concat());
    seeds
}

pub(crate) fn collaterals() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![CHANGED], vec![SIGNED]];
    for (kind, at) in (0..).zip([1, 40, 2000, 5000, 8000, 9000, 12_000, 14_000, 16_000]) {
        let change = encode(kind, kind, at, 1);
        seeds.extend([[vec![CHANGED], change.clone()].concat(), [vec![SIGNED], change].concat()]);
    }
    seeds.push([&[REAL], COLLATERAL].concat());
    seeds.push([&[REAL], &b"{\"tcb_info\":\"{\\\"id\\\":\\\"TDX\\\"}\"}"[..]].concat());
    seeds.push([vec![REAL], b"[".repeat(1000)].concat());
    seeds
}
