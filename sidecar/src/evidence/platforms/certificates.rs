//! The certificate table that a host hands to its SEV-SNP guests (GHCB specification, §4.1.8.1): entries of GUID,
//! offset and length, ended by an empty one, and the certificates behind them. The host is not trusted: every
//! number is held against the bytes that are there.

use sealane_attestation::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX};

const VCEK: [u8; 16] = guid(0x63da_758d_e664_4564_adc5_f4b9_3be8_accd);
const VLEK: [u8; 16] = guid(0xa807_4bc2_a25a_483e_aae6_39c0_45a0_b8a1);
const ASK: [u8; 16] = guid(0x4ab7_b379_bbac_4fe4_a02f_05ae_f327_c782);
const ARK: [u8; 16] = guid(0xc0b4_06a4_a803_4952_9743_3fb6_014c_d0ae);

const ENTRY_BYTES: usize = 24;
/// More entries than any host writes.
const ENTRIES_MAX: usize = 16;

const fn guid(text: u128) -> [u8; 16] {
    text.to_be_bytes()
}

/// The signing certificate, then its issuers, as far as the table holds them; nothing when it holds no signing
/// certificate or is not well formed.
pub(super) fn read(table: &[u8]) -> Vec<Vec<u8>> {
    let find = |wanted: &[u8; 16]| {
        let entry = entries(table).find(|entry| entry[..16] == *wanted)?;
        let number = |at: usize| entry.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (offset, length) = (number(16)? as usize, number(20)? as usize);
        let certificate = table.get(offset..offset.checked_add(length)?)?;
        (!certificate.is_empty() && length <= CERTIFICATE_BYTES_MAX).then(|| certificate.to_vec())
    };
    let Some(signer) = find(&VCEK).or_else(|| find(&VLEK)) else { return Vec::new() };
    let mut chain = vec![signer];
    chain.extend(find(&ASK));
    chain.extend(find(&ARK));
    chain.truncate(CERTIFICATES_MAX);
    chain
}

fn entries(table: &[u8]) -> impl Iterator<Item = &[u8; ENTRY_BYTES]> {
    let (entries, _) = table.as_chunks();
    entries.iter().take(ENTRIES_MAX).take_while(|entry| **entry != [0; ENTRY_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[([u8; 16], &[u8])]) -> Vec<u8> {
        let mut offset = ENTRY_BYTES * (entries.len() + 1);
        let mut table = Vec::new();
        for (guid, bytes) in entries {
            table.extend_from_slice(guid);
            table.extend_from_slice(&u32::try_from(offset).unwrap().to_le_bytes());
            table.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_le_bytes());
            offset += bytes.len();
        }
        table.extend_from_slice(&[0; ENTRY_BYTES]);
        for (_, bytes) in entries {
            table.extend_from_slice(bytes);
        }
        table
    }

    #[test]
    fn the_signing_certificate_comes_first() {
        let written = table(&[(ARK, b"ark"), (ASK, b"ask"), (VCEK, b"vcek")]);
        assert_eq!(read(&written), [b"vcek".to_vec(), b"ask".to_vec(), b"ark".to_vec()]);
        assert_eq!(read(&table(&[(VLEK, b"vlek")])), [b"vlek".to_vec()]);
        assert!(read(&table(&[(ASK, b"ask")])).is_empty());
    }

    #[test]
    fn numbers_that_lead_outside_are_no_certificates() {
        let honest = table(&[(VCEK, b"vcek")]);
        for (at, number) in [(16, u32::MAX), (20, u32::MAX), (16, 53), (20, 5), (20, 0)] {
            let mut spoiled = honest.clone();
            spoiled[at..at + 4].copy_from_slice(&number.to_le_bytes());
            assert!(read(&spoiled).is_empty(), "{at} {number}");
        }
        for length in 0..honest.len() {
            assert!(read(&honest[..length]).is_empty(), "{length}");
        }
        let large = vec![1; CERTIFICATE_BYTES_MAX + 1];
        assert!(read(&table(&[(VCEK, &large)])).is_empty());
    }
}
