//! Flag values of `policy init`.

use std::collections::BTreeSet;
use std::str::FromStr;

use sealane_policy::{SessionKind, SessionRule, Tcb};
use sealane_types::{
    Digest, ForwardPort, HostData, InvalidPort, PeerName, PublicKey, SessionName, SimulatedForm,
};

/// `FROM:TO[,TO…]`, or `SESSION=FROM:TO[,TO…]`.
#[derive(Debug, Clone)]
pub(super) struct SessionFlag(pub(super) SessionRule);

#[derive(Debug, thiserror::Error)]
#[error("expected FROM:TO, FROM:TO,TO or SESSION=FROM:TO, like activations=embedder:ranker")]
pub(super) struct InvalidFlow;

impl FromStr for SessionFlag {
    type Err = InvalidFlow;
    fn from_str(text: &str) -> Result<Self, InvalidFlow> {
        let (name, from, to) = name_and_from(text).ok_or(InvalidFlow)?;
        let to = to.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| InvalidFlow)?;
        Ok(Self(SessionRule { name, from, to, kind: SessionKind::Stream { senders_min: 0 } }))
    }
}

/// `FROM:TO:PORT[,PORT…]`, or `SESSION=FROM:TO:PORT[,PORT…]`.
#[derive(Debug, Clone)]
pub(super) struct ForwardFlag(pub(super) SessionRule);

#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidForward {
    #[error("expected FROM:TO:PORT, FROM:TO:PORT,PORT or SESSION=FROM:TO:PORT, like grpc=client:triton:8001")]
    Form,
    #[error("`{0}` is given twice; name each port once, like grpc=client:triton:8001,8002")]
    Repeated(ForwardPort),
    #[error("{0}, like grpc=client:triton:8001")]
    Port(InvalidPort),
}

impl FromStr for ForwardFlag {
    type Err = InvalidForward;
    fn from_str(text: &str) -> Result<Self, InvalidForward> {
        let (name, from, rest) = name_and_from(text).ok_or(InvalidForward::Form)?;
        let (to, ports) = rest.split_once(':').ok_or(InvalidForward::Form)?;
        let to = to.parse().map_err(|_| InvalidForward::Form)?;
        let mut targets = BTreeSet::new();
        for port in ports.split(',') {
            let port = port.parse().map_err(|_| InvalidForward::Form)?;
            let port = ForwardPort::new(port).map_err(InvalidForward::Port)?;
            if !targets.insert(port) {
                return Err(InvalidForward::Repeated(port));
            }
        }
        Ok(Self(SessionRule { name, from, to: [to].into(), kind: SessionKind::Forward { targets } }))
    }
}

/// The name of the session, if one is given, the sending Peer, and what follows its colon.
fn name_and_from(text: &str) -> Option<(Option<SessionName>, PeerName, &str)> {
    let (name, ends) = match text.split_once('=') {
        Some((name, ends)) => (Some(name.parse().ok()?), ends),
        None => (None, text),
    };
    let (from, to) = ends.split_once(':')?;
    Some((name, from.parse().ok()?, to))
}

/// `PEER=HEX`.
#[derive(Debug, Clone)]
pub(super) struct HostDataFlag {
    pub(super) peer: PeerName,
    pub(super) value: HostData,
}

#[derive(Debug, thiserror::Error)]
#[error("expected PEER=HEX with 64 lower-case hex digits")]
pub(super) struct InvalidHostData;

impl FromStr for HostDataFlag {
    type Err = InvalidHostData;
    fn from_str(text: &str) -> Result<Self, InvalidHostData> {
        let (peer, value) = text.split_once('=').ok_or(InvalidHostData)?;
        let peer = peer.parse().map_err(|_| InvalidHostData)?;
        let value = value.parse().map_err(|_| InvalidHostData)?;
        Ok(Self { peer, value })
    }
}

/// `PEER=HEX`.
#[derive(Debug, Clone)]
pub(super) struct KeyFlag {
    pub(super) peer: PeerName,
    pub(super) key: PublicKey,
}

impl FromStr for KeyFlag {
    type Err = InvalidHostData;
    fn from_str(text: &str) -> Result<Self, InvalidHostData> {
        let (peer, key) = text.split_once('=').ok_or(InvalidHostData)?;
        let peer = peer.parse().map_err(|_| InvalidHostData)?;
        Ok(Self { peer, key: key.parse().map_err(|_| InvalidHostData)? })
    }
}

/// `PEER=Tdx`: the platform that the simulated one of a Peer's pods resembles.
#[derive(Debug, Clone)]
pub(super) struct FormFlag {
    pub(super) peer: PeerName,
    pub(super) form: SimulatedForm,
}

#[derive(Debug, thiserror::Error)]
#[error("expected PEER=SevSnp, PEER=Tdx or PEER=Nitro")]
pub(super) struct InvalidForm;

impl FromStr for FormFlag {
    type Err = InvalidForm;
    fn from_str(text: &str) -> Result<Self, InvalidForm> {
        let (peer, form) = text.split_once('=').ok_or(InvalidForm)?;
        let peer = peer.parse().map_err(|_| InvalidForm)?;
        let form = form.parse().map_err(|_| InvalidForm)?;
        Ok(Self { peer, form })
    }
}

/// `HEX`, or `Tdx=HEX`: the fingerprint of a simulated root.
#[derive(Debug, Clone, Copy)]
pub(super) struct RootFlag {
    pub(super) form: SimulatedForm,
    pub(super) root: Digest,
}

#[derive(Debug, thiserror::Error)]
#[error("expected 64 lower-case hex digits, or those of another form as Tdx=HEX or Nitro=HEX")]
pub(super) struct InvalidRoot;

impl FromStr for RootFlag {
    type Err = InvalidRoot;
    fn from_str(text: &str) -> Result<Self, InvalidRoot> {
        let (form, root) = match text.split_once('=') {
            Some((form, root)) => (form.parse().map_err(|_| InvalidRoot)?, root),
            None => (SimulatedForm::default(), text),
        };
        Ok(Self { form, root: root.parse().map_err(|_| InvalidRoot)? })
    }
}

/// `bootloader=4,tee=0,snp=24,microcode=219`, with `fmc` on Turin.
#[derive(Debug, Clone, Copy)]
pub(super) struct TcbFlag(pub(super) Tcb);

#[derive(Debug, thiserror::Error)]
#[error(
    "expected numbers from 0 to 255 for fmc, bootloader, tee, snp or microcode, like bootloader=4,snp=24"
)]
pub(super) struct InvalidTcb;

impl FromStr for TcbFlag {
    type Err = InvalidTcb;
    fn from_str(text: &str) -> Result<Self, InvalidTcb> {
        let mut tcb = Tcb::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or(InvalidTcb)?;
            let component = match name {
                "fmc" => &mut tcb.fmc,
                "bootloader" => &mut tcb.bootloader,
                "tee" => &mut tcb.tee,
                "snp" => &mut tcb.snp,
                "microcode" => &mut tcb.microcode,
                _ => return Err(InvalidTcb),
            };
            let value = value.parse().map_err(|_| InvalidTcb)?;
            if component.replace(value).is_some() {
                return Err(InvalidTcb);
            }
        }
        Ok(Self(tcb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_read_as_written() {
        let SessionFlag(flow) = "activations=embedder:ranker,auditor".parse().unwrap();
        assert_eq!(flow.name.unwrap().as_str(), "activations");
        assert_eq!((flow.from.as_str(), flow.to.len()), ("embedder", 2));
        let SessionFlag(flow) = "a:b".parse().unwrap();
        assert_eq!(flow.name, None);
        for other in ["", "a", "a:", ":b", "a:b,", "=a:b", "A:b", "a:b:c"] {
            assert!(other.parse::<SessionFlag>().is_err(), "{other}");
        }
    }

    #[test]
    fn forwards_read_as_written() {
        let ForwardFlag(rule) = "grpc=client:triton:8001,8002".parse().unwrap();
        assert_eq!(rule.name.unwrap().as_str(), "grpc");
        assert_eq!((rule.from.as_str(), rule.to), ("client", ["triton".parse().unwrap()].into()));
        let targets = [8001, 8002].map(|port| ForwardPort::new(port).unwrap()).into();
        assert_eq!(rule.kind, SessionKind::Forward { targets });
        for other in [
            "",
            "a:b",
            "a:b:",
            "a:b:x",
            "a:b:0",
            "a:b:65536",
            "a:b:14710",
            "a:b:8001,8001",
            "a:b,c:1",
            "=a:b:1",
        ] {
            assert!(other.parse::<ForwardFlag>().is_err(), "{other}");
        }
    }

    #[test]
    fn floors_read_as_written() {
        let TcbFlag(tcb) = "bootloader=4,snp=24".parse().unwrap();
        assert_eq!((tcb.bootloader, tcb.snp, tcb.tee), (Some(4), Some(24), None));
        for other in ["", "snp", "snp=256", "snp=1,snp=2", "ucode=1"] {
            assert!(other.parse::<TcbFlag>().is_err(), "{other}");
        }
    }

    #[test]
    fn forms_and_their_roots_read_as_written() {
        let flag: FormFlag = "embedder=Tdx".parse().unwrap();
        assert_eq!((flag.peer.as_str(), flag.form), ("embedder", SimulatedForm::Tdx));
        let hex = "0a".repeat(32);
        let of = |text: String| text.parse::<RootFlag>().map(|flag| flag.form);
        assert_eq!(of(hex.clone()).unwrap(), SimulatedForm::SevSnp);
        assert_eq!(of(format!("Nitro={hex}")).unwrap(), SimulatedForm::Nitro);
        assert!(of(format!("Sgx={hex}")).is_err() && of("Tdx=".to_owned()).is_err());
        for other in ["embedder", "embedder=", "=Tdx", "embedder=Sgx"] {
            assert!(other.parse::<FormFlag>().is_err(), "{other}");
        }
    }

    #[test]
    fn host_data_names_its_peer() {
        let flag: HostDataFlag = format!("embedder={}", "0a".repeat(32)).parse().unwrap();
        assert_eq!(flag.peer.as_str(), "embedder");
        for other in ["embedder", "embedder=00", "=00"] {
            assert!(other.parse::<HostDataFlag>().is_err(), "{other}");
        }
    }
}
