//! Words shared by the control plane and the data plane: names, platform words, reasons, roots and the
//! signed-policy envelope.
//!
//! Invariant: a value of a name type is valid, so code that holds one never checks again; everything that
//! comes from outside passes a constructor with a limit. Deliberately absent: I/O, clocks, cryptography and
//! any Kubernetes type.

mod digest;
mod name;
mod platform;
mod port;
mod reason;
mod roots;
mod stream;
mod time;

pub use digest::{
    ChipId, Digest, Fmspc, GuestLabel, HostData, KeyDigest, KeyId, Measurement, MitigationVector,
    ParseHexError, PlatformId, TdAttributes, TeeTcbSvn, Xfam,
};
pub use name::{InvalidName, Namespace, PeerName, PodIdentity, PolicyName, SessionName};
pub use platform::{
    Assurance, Carrier, Cipher, CongestionChoice, CongestionControl, CrlIssuer, Platform, Product, Provider,
    SimulatedForm, SnpProtection, TcbStatus, UnknownWord,
};
pub use port::{ForwardPort, InvalidPort, RESERVED_PORTS};
pub use reason::Reason;
pub use roots::{
    INITDATA_BYTES_MAX, INITDATA_ROOTS, PublicKey, RootSource, Roots, Signature, SignedChain, SignedDocument,
};
pub use stream::{Delivery, Dtype};
pub use time::UnixSeconds;
