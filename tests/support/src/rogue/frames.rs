//! Frames of `PROTOCOL.md` §6, written out, in and out of their bounds.

use sealane_types::Digest;

pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&super::record::header(kind, body.len())[..], body].concat()
}

/// What a side says about itself.
#[derive(Debug, Clone)]
pub struct Claim {
    pub version: u16,
    pub peer: String,
    pub expected: String,
    pub session: String,
    pub pod: String,
    pub epoch: u64,
    pub digest: Digest,
    /// Bytes of a trust configuration, or others.
    pub trust: Vec<u8>,
}

pub fn confirm(claim: &Claim) -> Vec<u8> {
    let prefixed = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let text = |text: &str| prefixed(text.as_bytes());
    let body = [
        &claim.version.to_be_bytes()[..],
        &text(&claim.peer),
        &text(&claim.expected),
        &text(&claim.session),
        &text(&claim.pod),
        &claim.epoch.to_be_bytes(),
        claim.digest.as_bytes(),
        &prefixed(&claim.trust),
    ];
    frame(0x01, &body.concat())
}

/// One fragment that is the whole message.
pub fn evidence(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    frame(0x03, &[&[0; 8][..], &length, &[0; 4], message].concat())
}

pub fn ready() -> Vec<u8> {
    frame(0x04, &[])
}

pub fn close(reason: u16) -> Vec<u8> {
    frame(0x08, &reason.to_be_bytes())
}

/// These bytes of a tensor follow in bulk records.
pub fn bulk(stream: u32, sequence: u64, offset: u64, length: u32) -> Vec<u8> {
    let numbers = [&stream.to_be_bytes()[..], &sequence.to_be_bytes(), &offset.to_be_bytes()];
    frame(0x1a, &[&numbers.concat()[..], &length.to_be_bytes()[1..]].concat())
}

/// The frames in `plaintext` with their headers, as far as they are whole.
pub fn split(mut plaintext: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(header) = plaintext.first_chunk::<4>() {
        let length = 4 + u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
        let Some((frame, rest)) = plaintext.split_at_checked(length) else { break };
        frames.push(frame);
        plaintext = rest;
    }
    frames
}
