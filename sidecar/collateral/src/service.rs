//! Which service is asked how for which piece, and what its answers mean.
//!
//! Sources: "Versioned Chip Endorsement Key Certificate and KDS Interface Specification" (AMD 57230), chapter 4; the API
//! of Intel's provisioning certification service for TDX, version 4, which caches (PCCS) answer alike; "Trusted Hardware
//! Identity Management" of Azure.

use std::fmt::Write as _;
use std::time::Duration;

use sealane_attestation::{PckAuthority, Piece, PieceId, Rejection, VcekId};
use sealane_types::Product;
use serde::Deserialize;

use crate::answer::Answer;
use crate::error::FetchError;

/// A kind of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    /// First, because it is near: it answers for the chip of this machine alone.
    Thim,
    Kds,
    Pcs,
    IntelRootList,
}

impl Service {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Thim => "thim",
            Self::Kds => "kds",
            Self::Pcs => "pcs",
            Self::IntelRootList => "intel",
        }
    }

    /// AMD's lets one machine ask about once in ten seconds.
    pub(crate) const fn interval(self) -> Duration {
        match self {
            Self::Kds => Duration::from_secs(10),
            Self::Thim | Self::Pcs | Self::IntelRootList => Duration::from_millis(200),
        }
    }
}

/// One question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// What the service wants to hear beside it.
    pub(crate) headers: Option<(&'static str, &'static str)>,
    /// The header of the answer that holds a chain of certificates.
    pub(crate) header: Option<&'static str>,
    form: Form,
}

/// What the body of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    SnpList,
    Vcek,
    ThimVcek,
    TcbInfo,
    QeIdentity,
    TdxRootList,
    TdxList,
}

impl Request {
    /// The question for `id`, if it is one for `service`.
    pub(crate) fn new(service: Service, id: &PieceId) -> Option<Self> {
        let plain = |path, form| Self { path, headers: None, header: None, form };
        Some(match (service, id) {
            (Service::Kds, PieceId::SnpList(product)) => {
                plain(format!("/vcek/v1/{product}/crl"), Form::SnpList)
            }
            (Service::Kds, PieceId::Vcek(id)) => plain(vcek(id), Form::Vcek),
            (Service::Thim, PieceId::Vcek(_)) => Self {
                headers: Some(("Metadata", "true")),
                ..plain("/metadata/THIM/amd/certification".to_owned(), Form::ThimVcek)
            },
            (Service::Pcs, PieceId::TcbInfo(fmspc)) => Self {
                header: Some("TCB-Info-Issuer-Chain"),
                ..plain(format!("/tdx/certification/v4/tcb?fmspc={fmspc}"), Form::TcbInfo)
            },
            (Service::Pcs, PieceId::QeIdentity) => Self {
                header: Some("SGX-Enclave-Identity-Issuer-Chain"),
                ..plain("/tdx/certification/v4/qe/identity".to_owned(), Form::QeIdentity)
            },
            (Service::Pcs, PieceId::TdxList(authority)) => {
                let word = match authority {
                    PckAuthority::Processor => "processor",
                    PckAuthority::Platform => "platform",
                };
                let path = format!("/sgx/certification/v4/pckcrl?ca={word}&encoding=der");
                Self { header: Some("SGX-PCK-CRL-Issuer-Chain"), ..plain(path, Form::TdxList) }
            }
            (Service::Pcs, PieceId::TdxRootList) => {
                plain("/sgx/certification/v4/rootcacrl".to_owned(), Form::TdxRootList)
            }
            (Service::IntelRootList, PieceId::TdxRootList) => {
                plain("/IntelSGXRootCA.der".to_owned(), Form::TdxRootList)
            }
            _ => return None,
        })
    }

    /// The piece in an answer; nothing about it is verified yet.
    pub(crate) fn read(&self, answer: &Answer) -> Result<Piece, FetchError> {
        let Answer { body, header } = answer;
        let chain = || percent_decoded(header.as_deref().unwrap_or_default());
        let piece = match self.form {
            Form::SnpList => Piece::list(body).map(Piece::SnpList),
            Form::Vcek => Piece::vcek(body),
            Form::ThimVcek => thim(body),
            Form::TcbInfo => Piece::tcb_info(body, &chain()),
            Form::QeIdentity => Piece::qe_identity(body, &chain()),
            Form::TdxRootList => Piece::list(body).map(Piece::TdxRootList),
            Form::TdxList => Piece::tdx_list(body, &chain()),
        };
        piece.map_err(FetchError::Refused)
    }
}

/// By chip and by the level of each part of its firmware. Turin names its chips by 8 bytes and has one part more.
fn vcek(id: &VcekId) -> String {
    let VcekId { product, chip, tcb } = id;
    let length = if *product == Product::Turin { 8 } else { 64 };
    let mut path = format!("/vcek/v1/{product}/");
    for byte in chip.as_bytes().iter().take(length) {
        // Writing to a String cannot fail.
        let _ = write!(path, "{byte:02x}");
    }
    let mut separator = '?';
    let parts = [
        ("fmcSPL", tcb.fmc),
        ("blSPL", Some(tcb.bootloader)),
        ("teeSPL", Some(tcb.tee)),
        ("snpSPL", Some(tcb.snp)),
        ("ucodeSPL", Some(tcb.microcode)),
    ];
    for (name, level) in parts {
        if let Some(level) = level {
            let _ = write!(path, "{separator}{name}={level}");
            separator = '&';
        }
    }
    path
}

/// Members beside it are passed over: the chain above it is pinned.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thim {
    vcek_cert: String,
}

fn thim(body: &[u8]) -> Result<Piece, Rejection> {
    let thim: Thim = serde_json::from_slice(body)
        .map_err(|_| Rejection::CollateralMissing("the answer holds no certificate"))?;
    Piece::vcek(thim.vcek_cert.as_bytes())
}

/// Headers hold PEM in percent-encoding (RFC 3986 §2.1). What is not well formed stays as it is, and then is no PEM.
fn percent_decoded(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let pair = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2)));
        match pair.filter(|_| *byte == b'%') {
            Some((high, low)) => {
                decoded.push(u8::try_from(high << 4 | low).unwrap_or_default());
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use sealane_attestation::Tcb;
    use sealane_types::{ChipId, Fmspc};

    use super::*;

    fn path(service: Service, id: &PieceId) -> String {
        Request::new(service, id).unwrap().path
    }

    #[test]
    fn questions_are_those_that_services_know() {
        assert_eq!(path(Service::Kds, &PieceId::SnpList(Product::Genoa)), "/vcek/v1/Genoa/crl");
        let fmspc = Fmspc::new([0xb0, 0xc0, 0x6f, 0, 0, 0]);
        assert_eq!(
            path(Service::Pcs, &PieceId::TcbInfo(fmspc)),
            "/tdx/certification/v4/tcb?fmspc=b0c06f000000"
        );
        let list = PieceId::TdxList(PckAuthority::Platform);
        assert_eq!(path(Service::Pcs, &list), "/sgx/certification/v4/pckcrl?ca=platform&encoding=der");
        assert_eq!(Request::new(Service::Kds, &list), None);
        assert_eq!(Request::new(Service::Thim, &PieceId::QeIdentity), None);
    }

    #[test]
    fn chips_are_named_as_amd_names_them() {
        let tcb = Tcb { fmc: None, bootloader: 4, tee: 0, snp: 24, microcode: 219 };
        let mut chip = [0; 64];
        chip[..8].copy_from_slice(&[0xab; 8]);
        let id = |product, tcb| PieceId::Vcek(VcekId { product, chip: ChipId::new(chip), tcb });
        let expected = format!(
            "/vcek/v1/Genoa/{}{}?blSPL=4&teeSPL=0&snpSPL=24&ucodeSPL=219",
            "ab".repeat(8),
            "00".repeat(56)
        );
        assert_eq!(path(Service::Kds, &id(Product::Genoa, tcb)), expected);
        let turin = Tcb { fmc: Some(1), ..tcb };
        let expected =
            format!("/vcek/v1/Turin/{}?fmcSPL=1&blSPL=4&teeSPL=0&snpSPL=24&ucodeSPL=219", "ab".repeat(8));
        assert_eq!(path(Service::Kds, &id(Product::Turin, turin)), expected);
    }

    #[test]
    fn headers_are_decoded() {
        assert_eq!(percent_decoded("-----BEGIN%20X-----%0Aab%2B%3d"), b"-----BEGIN X-----\nab+=");
        assert_eq!(percent_decoded("%"), b"%");
        assert_eq!(percent_decoded("%4"), b"%4");
        assert_eq!(percent_decoded("%zz%41"), b"%zzA");
    }

    #[test]
    fn azure_s_answer_holds_the_chip_s_certificate() {
        let pem = "-----BEGIN CERTIFICATE-----\\nMAECAwQ=\\n-----END CERTIFICATE-----\\n";
        assert!(thim(format!(r#"{{"vcekCert":"{pem}","tcbm":"0"}}"#).as_bytes()).is_ok());
        for body in ["", "{}", r#"{"vcekCert":1}"#, r#"{"vcekCert":"x"}"#] {
            assert!(thim(body.as_bytes()).is_err(), "{body}");
        }
    }
}
