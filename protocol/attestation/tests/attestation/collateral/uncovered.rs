//! What no signature covers: the frame of a certificate or list, its algorithm (RFC 5280 §4.1.1.2, §5.1.1.2), its
//! signature. A piece with another one would take the place of an honest one, and vouch for nothing when it is used.

use std::ops::Range;

use sealane_attestation::{Piece, SignedStatement};

use super::support::{CHIP, PLATFORM, ROOTS, now, pieces, snp_list};

/// The certificates and lists of a piece, in DER.
fn parts(piece: &mut Piece) -> Vec<&mut Vec<u8>> {
    match piece {
        Piece::SnpList(der) | Piece::Vcek(der) | Piece::TdxRootList(der) => vec![der],
        Piece::TcbInfo(SignedStatement { signer, .. })
        | Piece::QeIdentity(SignedStatement { signer, .. }) => {
            vec![signer]
        }
        Piece::TdxList { list, authority } => vec![list, authority],
    }
}

/// Where the first part of what `der` holds lies: the one that is signed.
fn signed(der: &[u8]) -> Range<usize> {
    let header = |der: &[u8]| if der[1] < 0x80 { 2 } else { 2 + usize::from(der[1] & 0x7f) };
    let begin = header(der);
    let inner = &der[begin..];
    let length = match header(inner) {
        2 => usize::from(inner[1]),
        long => inner[2..long].iter().fold(0, |length, octet| length << 8 | usize::from(*octet)),
    };
    begin..begin + header(inner) + length
}

#[test]
fn what_no_signature_covers_cannot_be_changed_either() {
    let mut honest = pieces(&PLATFORM);
    honest.extend([snp_list(60, false), Piece::Vcek(CHIP.certificates()[0].to_vec())]);
    assert_eq!(honest.len(), 6, "one of each kind");
    for piece in honest {
        ROOTS.verify(piece.clone(), now()).unwrap();
        let frames: Vec<_> =
            parts(&mut piece.clone()).into_iter().map(|der| (signed(der), der.len())).collect();
        for (part, (signed, length)) in frames.into_iter().enumerate() {
            for at in (0..signed.start).chain(signed.end..length) {
                for bit in [0x01, 0x20] {
                    let mut changed = piece.clone();
                    parts(&mut changed)[part][at] ^= bit;
                    let verdict = ROOTS.verify(changed, now());
                    assert!(verdict.is_err(), "octet {at} of part {part} of {piece:?}");
                }
            }
        }
    }
}
