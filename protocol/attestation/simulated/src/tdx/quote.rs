//! The layout of quotes, version 4 and 5, and what a quote states before it is signed.

/// Which TD report a quote carries, and thereby which version it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// TD 1.0 in a quote of version 4.
    V4,
    /// TD 1.0 in a quote of version 5.
    Td10,
    Td15,
    Td15Ex,
}

impl Body {
    pub const ALL: &'static [Self] = &[Self::V4, Self::Td10, Self::Td15, Self::Td15Ex];

    /// Bytes of the TD report.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::V4 | Self::Td10 => 584,
            Self::Td15 => 648,
            Self::Td15Ex => 885,
        }
    }

    const fn version(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::Td10 | Self::Td15 | Self::Td15Ex => 5,
        }
    }

    pub(super) fn header(self) -> [u8; 48] {
        let mut header = [0; 48];
        // Version, ECDSA on P-256, TDX.
        header[..8].copy_from_slice(&[self.version(), 0, 2, 0, 0x81, 0, 0, 0]);
        header[12..28].copy_from_slice(&[
            0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07,
        ]);
        header
    }

    /// Type and size, in version 5.
    pub(super) fn descriptor(self) -> Vec<u8> {
        let kind: u16 = match self {
            Self::V4 => return Vec::new(),
            Self::Td10 => 2,
            Self::Td15 => 3,
            Self::Td15Ex => 4,
        };
        [&kind.to_le_bytes()[..], &length(self.bytes())].concat()
    }
}

/// A quote before it is signed. Hardware states what is true; a test may state anything.
#[derive(Debug, Clone)]
pub struct Draft {
    pub header: [u8; 48],
    /// Type and size of the body, in version 5.
    pub descriptor: Vec<u8>,
    pub report: Vec<u8>,
    /// The report of the quoting enclave, which names the attestation key.
    pub enclave_report: [u8; 384],
    pub authentication_data: Vec<u8>,
    /// Kinds of certification data, outer and inner.
    pub kinds: [u16; 2],
    /// PEM of platform, authority and root.
    pub chain: Vec<u8>,
}

impl Draft {
    /// What the attestation key signs.
    pub(super) fn signed(&self) -> Vec<u8> {
        [&self.header[..], &self.descriptor, &self.report].concat()
    }

    pub(super) fn assemble(&self, signature: &[u8], key: &[u8], enclave_signature: &[u8]) -> Vec<u8> {
        let [outer, inner] = self.kinds;
        let authentication = u16::try_from(self.authentication_data.len()).unwrap_or(u16::MAX);
        let certification = [
            &self.enclave_report[..],
            enclave_signature,
            &authentication.to_le_bytes(),
            &self.authentication_data,
            &inner.to_le_bytes(),
            &length(self.chain.len()),
            &self.chain,
        ]
        .concat();
        let outer = outer.to_le_bytes();
        let signatures = [signature, key, &outer, &length(certification.len()), &certification].concat();
        [&self.signed()[..], &length(signatures.len()), &signatures].concat()
    }
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}
