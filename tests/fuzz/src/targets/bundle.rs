//! Bundles of collateral, and pieces as services and files hold them.

use std::sync::LazyLock;

use sealane_attestation::bundle::{self, Bundle};
use sealane_attestation::{Piece, Stock, VendorRoots, VerifiedPiece};
use sealane_types::UnixSeconds;

use crate::edit::{edits, encode};
use crate::script::Script;

/// What Intel issued, and a moment at which it held.
const GENUINE: &[u8] = include_bytes!("../../../../protocol/attestation/tests/tdx/v4.collateral.json");
const VCEK: &[u8] = include_bytes!("../../../../protocol/attestation/tests/snp/milan-v2-vcek.vcek.der");
const NOW: UnixSeconds = UnixSeconds(1_752_105_600);

/// How an input is read: its first byte modulo five.
const CHANGED_DOCUMENT: u8 = 0;
const CHANGED_PIECES: u8 = 1;
const ANSWER: u8 = 2;
const CHANGED_RECORD: u8 = 4;

struct World {
    roots: VendorRoots,
    pieces: Vec<Piece>,
    document: Vec<u8>,
    record: Vec<u8>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let mut pieces = Piece::read(GENUINE).unwrap();
    pieces.push(Piece::Vcek(VCEK.to_vec()));
    let bundle = Bundle { issued: NOW, min_tcb_evaluation: Some(17), pieces: pieces.clone() };
    let roots = VendorRoots::pinned();
    let mut stock = Stock::new(roots.clone());
    for piece in &pieces {
        stock.take(roots.verify(piece.clone(), NOW).unwrap(), NOW).unwrap();
    }
    World { roots, pieces, document: bundle.to_bytes().unwrap(), record: stock.record() }
});

/// First byte: how the rest is read.
pub(super) fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 5 {
        CHANGED_DOCUMENT => {
            let mut document = WORLD.document.clone();
            edits(&mut Script::new(rest)).into_iter().for_each(|edit| edit.apply(&mut document));
            one_form(&document);
        }
        CHANGED_PIECES => {
            let mut file = GENUINE.to_vec();
            edits(&mut Script::new(rest)).into_iter().for_each(|edit| edit.apply(&mut file));
            genuine_or_refused(&file);
        }
        ANSWER => {
            let (body, chain) = rest.split_at(rest.len() / 2);
            let answers = [
                Piece::tcb_info(body, chain),
                Piece::qe_identity(body, chain),
                Piece::tdx_list(body, chain),
                Piece::vcek(body),
            ];
            for piece in answers.into_iter().flatten() {
                assert!(WORLD.roots.verify(piece, NOW).is_err(), "nobody signed this");
            }
        }
        CHANGED_RECORD => {
            let mut record = WORLD.record.clone();
            edits(&mut Script::new(rest)).into_iter().for_each(|edit| edit.apply(&mut record));
            restores_what_is_genuine(&record);
        }
        _ => {
            restores_what_is_genuine(rest);
            one_form(rest);
            genuine_or_refused(rest);
            assert!(bundle::open(rest, &std::collections::BTreeSet::new(), NOW).is_err());
            drop(bundle::read(rest));
        }
    }
}

/// What reads as a document is written back the same.
fn one_form(bytes: &[u8]) {
    if let Ok(bundle) = Bundle::from_bytes(bytes) {
        assert_eq!(bundle.to_bytes().unwrap(), bytes);
    }
}

/// Nothing is believed that a vendor did not sign.
fn genuine_or_refused(file: &[u8]) {
    for piece in Piece::read(file).into_iter().flatten() {
        let verified = WORLD.roots.verify(piece, NOW);
        let genuine = |piece: &VerifiedPiece| WORLD.pieces.contains(piece.piece());
        assert!(verified.as_ref().map_or(true, genuine), "{verified:?}");
    }
}

/// A record brings back what vendors signed, and says the same when it is made again.
fn restores_what_is_genuine(record: &[u8]) {
    let mut stock = Stock::new(WORLD.roots.clone());
    if stock.restore(record, NOW).is_ok() {
        assert!(stock.pieces().iter().all(|held| WORLD.pieces.contains(held.piece())));
        let mut again = Stock::new(WORLD.roots.clone());
        assert!(again.restore(&stock.record(), NOW).is_ok());
        assert_eq!(again.record(), stock.record());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![CHANGED_DOCUMENT], vec![CHANGED_PIECES], vec![CHANGED_RECORD]];
    // The envelope of the document, its first pieces, texts, signatures and certificates.
    for (kind, at) in (0..).zip([0, 12, 40, 80, 300, 2_000, 6_000, 12_000, 15_900]) {
        let changed = encode(0, kind, at, 1);
        let both = [CHANGED_DOCUMENT, CHANGED_PIECES, CHANGED_RECORD]
            .map(|mode| [vec![mode], changed.clone()].concat());
        seeds.extend(both);
    }
    seeds.extend([GENUINE, VCEK].map(|bytes| [&[ANSWER + 1], bytes].concat()));
    let document = br#"{"issued":"2026-11-20T00:00:00Z","pieces":[],"version":1}"#;
    seeds.push([&[ANSWER + 1][..], document].concat());
    seeds.push([&[ANSWER + 1][..], br#"{"pieces":[],"version":1}"#].concat());
    seeds.push([&[ANSWER][..], b"{\"tcbInfo\":{},\"signature\":\"00\"}"].concat());
    seeds
}
