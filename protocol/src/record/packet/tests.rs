use sealane_types::Cipher;

use super::{ConnectionId, HEADER_BYTES, OpenError, OpenedPacket, PacketNumber, PacketOpener, PacketSealer};
use crate::Moment;
use crate::handshake::{KeyExchange, Suite};
use crate::keys::{Label, LinkSecret, Root, Secret, Split};
use crate::limits::{PHASE_OVERLAP_MICROS, TAG_BYTES};
use crate::record::{RecordError, Rekey};

const NOW: Moment = Moment::from_micros(0);
const ID: ConnectionId = ConnectionId([9; 8]);

fn secret(seed: u8, cipher: Cipher) -> LinkSecret {
    let part = |byte| Secret::take(&mut [byte; 32]);
    let split = Split { initiator: part(seed), responder: part(2) };
    Root::new(&split, None, Suite::new(KeyExchange::Classical, cipher), [4; 32]).datagrams(Label::Initiator)
}

fn ends_with(rekey: Rekey) -> (PacketSealer, PacketOpener) {
    let secret = || secret(1, Cipher::Aes256Gcm);
    (PacketSealer::new(secret(), rekey, NOW), PacketOpener::new(secret(), NOW))
}

fn ends() -> (PacketSealer, PacketOpener) {
    ends_with(Rekey::default())
}

fn seal(sealer: &mut PacketSealer, text: &[u8], now: Moment) -> Vec<u8> {
    let mut packet = [&[0; HEADER_BYTES], text, &[0; TAG_BYTES]].concat();
    sealer.seal(ID, &mut packet, now).unwrap();
    packet
}

fn open(opener: &mut PacketOpener, packet: &[u8], now: Moment) -> Result<(u64, Vec<u8>), OpenError> {
    let mut packet = packet.to_vec();
    let opened = opener.open(&mut packet, now, |_| false);
    opened.map(|OpenedPacket { number, plaintext, .. }| (number.0, plaintext.to_vec()))
}

#[test]
fn packets_open_in_any_order_and_their_numbers_do_not_show() {
    for cipher in Cipher::ALL.iter().copied() {
        let mut sealer = PacketSealer::new(secret(1, cipher), Rekey::default(), NOW);
        let mut opener = PacketOpener::new(secret(1, cipher), NOW);
        let packets: Vec<_> = (0..100_u8).map(|text| seal(&mut sealer, &[text; 3], NOW)).collect();
        for (number, packet) in packets.iter().enumerate().rev() {
            let text = u8::try_from(number).unwrap();
            assert_eq!(open(&mut opener, packet, NOW), Ok((u64::from(text), vec![text; 3])));
        }
        let shown: std::collections::BTreeSet<_> =
            packets.iter().map(|packet| packet[9..13].to_vec()).collect();
        assert!(shown.len() > 90 && !shown.contains(&vec![0, 0, 0, 1]), "numbers are hidden");
    }
}

#[test]
fn a_changed_packet_is_ignored_wherever_it_was_changed() {
    let (mut sealer, mut opener) = ends();
    let packet = seal(&mut sealer, b"tensor", NOW);
    for at in 0..packet.len() {
        for bit in 0..8 {
            let mut other = packet.clone();
            other[at] ^= 1 << bit;
            assert_eq!(open(&mut opener, &other, NOW), Err(OpenError::Ignored), "byte {at} bit {bit}");
        }
        assert_eq!(open(&mut opener, &packet[..at], NOW), Err(OpenError::Ignored), "{at} bytes");
    }
    assert!(open(&mut opener, &packet, NOW).is_ok(), "and the true one opens afterwards");
}

#[test]
fn a_number_that_was_seen_is_not_opened_again_and_a_forged_one_is_not_seen() {
    let (mut sealer, mut opener) = ends();
    let mut packet = seal(&mut sealer, b"tensor", NOW);
    let mut asked = None;
    let refused = opener.open(&mut packet, NOW, |number| {
        asked = Some(number);
        true
    });
    assert_eq!((refused, asked), (Err(OpenError::Ignored), Some(PacketNumber(0))));
}

#[test]
fn a_reflected_packet_does_not_open() {
    let part = |byte| Secret::take(&mut [byte; 32]);
    let split = Split { initiator: part(1), responder: part(2) };
    let root = Root::new(&split, None, Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm), [4; 32]);
    let mut sealer = PacketSealer::new(root.datagrams(Label::Initiator), Rekey::default(), NOW);
    let mut opener = PacketOpener::new(root.datagrams(Label::Responder), NOW);
    let packet = seal(&mut sealer, b"tensor", NOW);
    assert_eq!(open(&mut opener, &packet, NOW), Err(OpenError::Ignored));
    let mut of_links = PacketOpener::new(root.link(Label::Initiator), NOW);
    assert_eq!(open(&mut of_links, &packet, NOW), Err(OpenError::Ignored), "nor under the key of a link");
}

#[test]
fn two_phases_live_and_the_older_one_dies() {
    let (mut sealer, mut opener) = ends_with(Rekey::new(0, 2, 0));
    let old: Vec<_> = (0..3).map(|_| seal(&mut sealer, b"old", NOW)).collect();
    assert_eq!(sealer.updates(), 0, "none before the remote has seen the key");
    open(&mut opener, &old[0], NOW).unwrap();
    sealer.acknowledged(PacketNumber(0));
    let new = seal(&mut sealer, b"new", NOW);
    assert_eq!(sealer.updates(), 1);
    assert_eq!(open(&mut opener, &new, NOW), Ok((3, b"new".to_vec())));
    assert_eq!(opener.updates(), 1);
    assert_eq!(open(&mut opener, &old[1], NOW), Ok((1, b"old".to_vec())), "overtaken");
    let late = NOW.plus_micros(PHASE_OVERLAP_MICROS);
    assert_eq!(open(&mut opener, &old[2], late), Err(OpenError::Ignored), "its key is wiped");
    let further = seal(&mut sealer, b"new", NOW);
    seal(&mut sealer, b"new", NOW);
    assert_eq!(sealer.updates(), 1, "nobody has seen the second key");
    sealer.acknowledged(PacketNumber(4));
    assert!(open(&mut opener, &further, late).is_ok());
    let third = seal(&mut sealer, b"third", NOW);
    assert_eq!((sealer.updates(), open(&mut opener, &third, late)), (2, Ok((6, b"third".to_vec()))));
}

#[test]
fn the_first_packet_of_a_phase_that_time_began_is_told_apart() {
    let (mut sealer, _) = ends_with(Rekey::new(0, 1, 1_000_000));
    let later = NOW.plus_micros(1_000_000);
    assert!(!sealer.is_aged(later), "nothing was sealed");
    seal(&mut sealer, b"x", NOW);
    assert!(!sealer.is_aged(later), "nor seen");
    sealer.acknowledged(PacketNumber(0));
    assert!(!sealer.is_aged(NOW), "what was spent is replaced without being asked about");
    assert!(sealer.is_aged(later));
    seal(&mut sealer, b"x", later);
    assert_eq!((sealer.updates(), sealer.is_aged(later)), (1, false));
    sealer.acknowledged(PacketNumber(1));
    sealer.hold();
    assert!(!sealer.is_aged(later.plus_micros(1_000_000)), "another key comes next");
}

#[test]
fn a_key_past_its_time_is_refused() {
    let (mut sealer, mut opener) = ends();
    opener.rotate(Rekey::new(0, 0, 60_000_000));
    let packets: Vec<_> = (0..2).map(|_| seal(&mut sealer, b"x", NOW)).collect();
    // Twice its time, and as long as a connection may be silent.
    assert!(open(&mut opener, &packets[0], NOW.plus_micros(140_000_000)).is_ok());
    let overdue = Err(OpenError::Fatal(RecordError::KeyOverdue));
    assert_eq!(open(&mut opener, &packets[1], NOW.plus_micros(140_000_001)), overdue);
}

#[test]
fn a_renewal_takes_the_next_phase_and_wipes_the_one_before() {
    let (mut sealer, mut opener) = ends_with(Rekey::new(0, 1, 0));
    let renewed = || secret(7, Cipher::Aes256Gcm);
    let old: Vec<_> = (0..2).map(|_| seal(&mut sealer, b"old", NOW)).collect();
    open(&mut opener, &old[0], NOW).unwrap();
    sealer.hold();
    sealer.acknowledged(PacketNumber(0));
    let held = seal(&mut sealer, b"held", NOW);
    assert_eq!(sealer.updates(), 0, "the key of the renewal comes next, and no other");
    opener.expect(renewed());
    assert_eq!(opener.confirm_renewal(), Err(RecordError::Kind), "its sign without its key");
    sealer.renew(renewed(), NOW);
    let new = seal(&mut sealer, b"new", NOW);
    open(&mut opener, &new, NOW).unwrap();
    open(&mut opener, &old[1], NOW).unwrap();
    assert_eq!(opener.confirm_renewal(), Ok(()));
    assert_eq!(opener.confirm_renewal(), Err(RecordError::Kind), "once");
    assert_eq!(open(&mut opener, &held, NOW), Err(OpenError::Ignored), "the old key is wiped");
    let (mut other, mut opener) = ends();
    open(&mut opener, &seal(&mut other, b"old", NOW), NOW).unwrap();
    opener.expect(renewed());
    let mut unrenewed = PacketSealer::new(secret(1, Cipher::Aes256Gcm), Rekey::new(0, 1, 0), NOW);
    seal(&mut unrenewed, b"old", NOW);
    unrenewed.acknowledged(PacketNumber(0));
    let updated = seal(&mut unrenewed, b"updated", NOW);
    assert_eq!(open(&mut opener, &updated, NOW), Err(OpenError::Ignored), "an update in its place");
}
