//! CBOR (RFC 8949) in its shortest form.

/// The start of an item: its major type and argument.
pub(super) fn head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    let bytes = argument.to_be_bytes();
    match argument {
        0..=23 => out.push(major | bytes[7]),
        24..=0xff => out.extend_from_slice(&[major | 24, bytes[7]]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

pub(super) fn unsigned(out: &mut Vec<u8>, value: u64) {
    head(out, 0, value);
}

pub(super) fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    head(out, 2, value.len() as u64);
    out.extend_from_slice(value);
}

pub(super) fn text(out: &mut Vec<u8>, value: &str) {
    head(out, 3, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

pub(super) fn array(out: &mut Vec<u8>, length: usize) {
    head(out, 4, length as u64);
}

pub(super) fn map(out: &mut Vec<u8>, length: usize) {
    head(out, 5, length as u64);
}

/// A map that ends with [`end`].
pub(super) fn open_map(out: &mut Vec<u8>) {
    out.push(0xbf);
}

pub(super) fn end(out: &mut Vec<u8>) {
    out.push(0xff);
}

pub(super) fn null(out: &mut Vec<u8>) {
    out.push(0xf6);
}
