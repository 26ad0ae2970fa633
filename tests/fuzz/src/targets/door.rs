//! Packets of applications at the door, and the descriptors of memory in them.

use sealane_sidecar::door::codec::{PutEntry, Request};

/// Bytes of one packet: strict, and each request has one encoding, but for what a HELLO offers and how long an open
/// waits, of which the door keeps less than was said.
pub(super) fn packet(data: &[u8]) {
    let Ok(request) = Request::parse(data) else { return };
    if let Some(encoded) = encode(&request) {
        assert_eq!(encoded, data, "what is accepted encodes to the same bytes: {request:?}");
    }
}

fn encode(request: &Request) -> Option<Vec<u8>> {
    let header = |kind: u8, flags: u8, count: usize, lane: u32| {
        [&[kind, flags][..], &(count as u16).to_le_bytes(), &lane.to_le_bytes()].concat()
    };
    let numbers = |kind: u8, flags: u8, lane: u32, numbers: &[u64]| {
        let mut packet = header(kind, flags, numbers.len(), lane);
        numbers.iter().for_each(|number| packet.extend(number.to_le_bytes()));
        packet
    };
    Some(match request {
        // DROP also carries a lane that it has no use for.
        Request::Hello { .. }
        | Request::OpenSender { .. }
        | Request::OpenReceiver { .. }
        | Request::Drop { .. } => return None,
        Request::Want { lane, bytes } => [header(2, 0, 0, *lane), bytes.to_le_bytes().to_vec()].concat(),
        Request::Put { lane, entries } => {
            let mut packet = header(4, 0, entries.len(), *lane);
            entries.iter().for_each(|entry| put(&mut packet, entry));
            packet
        }
        Request::Close { lane, abandon } => header(5, u8::from(*abandon), 0, *lane),
        Request::Took { lane, deliveries, partly } => numbers(6, u8::from(*partly), *lane, deliveries),
        Request::Release { lane, deliveries, taken } => numbers(7, u8::from(*taken), *lane, deliveries),
    })
}

fn put(packet: &mut Vec<u8>, entry: &PutEntry) {
    let PutEntry { sequence, offset, length, segment, dtype, shape, run, name, assigned } = entry;
    for number in [sequence, offset, length] {
        packet.extend(number.to_le_bytes());
    }
    packet.extend(segment.to_le_bytes());
    packet.extend([*dtype, shape.len() as u8, name.len() as u8, u8::from(*run)]);
    packet.extend((assigned.len() as u16).to_le_bytes());
    packet.extend([0; 2]);
    shape.iter().for_each(|dimension| packet.extend(dimension.to_le_bytes()));
    packet.extend(name.as_bytes());
    assigned.iter().for_each(|replica| packet.extend(replica.0));
}
