//! What a workload runs on, how strongly it is bound to it, and what may carry and seal its bytes.

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize,
        )]
        pub enum $type {
            $($(#[$variant_doc])* $variant),+
        }

        impl $type {
            /// Every word, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as users read and write it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant)),+
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $crate::UnknownWord;
            fn from_str(word: &str) -> Result<Self, $crate::UnknownWord> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word).ok_or($crate::UnknownWord)
            }
        }
    };
}
pub(crate) use words;

/// A word that is not in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one of the known words")]
pub struct UnknownWord;

words!(
    /// What produced the evidence.
    Platform {
        SevSnp,
        Tdx,
        Nitro,
        /// No TEE: a pinned key.
        Key,
        /// Software evidence under a root made per install. It proves nothing and says so.
        Simulated,
    }
);

words!(
    /// AMD processor families whose SEV-SNP evidence can be told apart. TCB numbers compare only within one.
    Product {
        Milan,
        Genoa,
        Turin,
    }
);

words!(
    /// Whose revocation lists are numbered, each by itself (RFC 5280 §5.2.3).
    CrlIssuer {
        /// AMD's root of this product, like the two below.
        Milan,
        Genoa,
        Turin,
        IntelRoot,
        /// Intel's authority over platforms of one package.
        IntelProcessor,
        /// Intel's authority over platforms of several packages.
        IntelPlatform,
    }
);

impl From<Product> for CrlIssuer {
    fn from(product: Product) -> Self {
        match product {
            Product::Milan => Self::Milan,
            Product::Genoa => Self::Genoa,
            Product::Turin => Self::Turin,
        }
    }
}

words!(
    /// What can protect a SEV-SNP guest beyond the platform's least, so that a policy may insist on it.
    SnpProtection {
        /// No two addresses reach the same memory: the firmware looked (against BadRAM).
        AliasCheck,
        /// The memory corrects errors.
        Ecc,
        /// All memory of the host is encrypted, not only that of guests.
        Tsme,
        /// Nothing reports the power that the processor draws.
        RaplDisabled,
        /// The host cannot read the guest's ciphertext.
        CiphertextHiding,
        /// The platform calls writes through its IOMMU safe (IOMMU_WRITE_SAFE, from Turin on).
        IommuWriteSafe,
        /// The guest runs on one socket only.
        SingleSocket,
        /// The guest's memory is encrypted by AES-256-XTS.
        AesXts,
        /// The host can neither move nor swap the guest's pages.
        PageSwapDisabled,
    }
);

words!(
    /// How closely the evidence is bound to the workload, weakest first.
    Assurance {
        Simulated,
        Key,
        Node,
        Pod,
    }
);

words!(
    /// State of the platform's trusted computing base, weakest first.
    TcbStatus {
        Revoked,
        OutOfDate,
        ConfigurationNeeded,
        SoftwareHardeningNeeded,
        UpToDate,
    }
);

words!(
    /// How a sidecar obtains evidence. `Auto` picks the strongest real one and never simulation.
    Provider {
        Auto,
        /// The kernel's interface in a TDX or SEV-SNP guest.
        ConfigfsTsm,
        /// /dev/sev-guest, for kernels without the former.
        SevGuest,
        /// The attestation agent of Confidential Containers.
        CocoAgent,
        /// The agent of a node that is a confidential VM: it states the workload.
        NodeAgent,
        /// /dev/nsm of an AWS Nitro enclave.
        Nsm,
        /// A pinned key from a file: no TEE.
        Key,
        Simulated,
    }
);

words!(
    /// The real platform whose form simulated evidence has.
    #[derive(Default)]
    SimulatedForm {
        #[default]
        SevSnp,
        Tdx,
        Nitro,
    }
);

words!(
    /// What moves sealed bytes.
    Carrier {
        Tcp,
        Udp,
        /// UDP past the kernel's stack, between host-networked pods.
        AfXdp,
    }
);

words!(
    /// What decides how much is on a path, over UDP and AF_XDP.
    CongestionControl {
        /// RFC 9438: a loss is a full queue. Fair to TCP.
        Cubic,
        /// draft-ietf-ccwg-bbr: a model of what the path delivers, so that losses at random cost nothing.
        Bbr,
    }
);

words!(
    /// What a session asks for as its congestion control.
    #[derive(Default)]
    CongestionChoice {
        /// CUBIC, and BBR on a path that is seen to lose datagrams by chance, which a queue of a tenth of a round
        /// trip or less looks like.
        Auto,
        #[default]
        Cubic,
        Bbr,
    }
);

words!(
    /// Record ciphers, in the order of preference on CPUs with AES instructions.
    Cipher {
        Aes256Gcm,
        ChaCha20Poly1305,
        /// Half the key size: used only where the policy lists it.
        Aes128Gcm,
        /// draft-irtf-cfrg-aegis-aead, several times as fast and no algorithm of FIPS: used only where the policy lists it.
        Aegis256X4,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for platform in Platform::ALL {
            assert_eq!(platform.as_str().parse::<Platform>().unwrap(), *platform);
        }
        assert!("sevsnp".parse::<Platform>().is_err());
    }

    #[test]
    fn assurance_orders_from_weak_to_strong() {
        assert!(Assurance::Simulated < Assurance::Key);
        assert!(Assurance::Key < Assurance::Node);
        assert!(Assurance::Node < Assurance::Pod);
    }
}
