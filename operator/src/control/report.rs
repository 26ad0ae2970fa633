//! Bounds on what a sidecar says. Checked before anything of it is kept.

use std::net::IpAddr;

use sealane_sidecar_api::control::{ExternalReport, Register, Report, SessionReport};
use sealane_sidecar_api::delta;
use sealane_types::PodIdentity;

use crate::limits::{
    ADDRESSES_MAX, POD_IDENTITY_BYTES_MAX, REPORTED_EXTERNALS_MAX, REPORTED_MESSAGE_BYTES_MAX,
    REPORTED_SESSIONS_MAX, REPORTED_WORD_BYTES_MAX,
};

/// Why a registration or report is not accepted; all are the sidecar's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("the sidecar says it is {stated}, but its token belongs to {actual}")]
    AnotherPod { stated: String, actual: PodIdentity },
    #[error("{field} must have {expected} bytes")]
    Length { field: &'static str, expected: usize },
    #[error("{field} is too long")]
    TooLong { field: &'static str },
    #[error("more than {max} {field}")]
    TooMany { field: &'static str, max: usize },
    #[error("data_port must be between 1 and 65535")]
    Port,
    #[error("an address is not an IP address")]
    Address,
}

/// A registration within its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// As the sidecar states it.
    pub version: String,
    pub node: String,
    /// As the sidecar states them; compared with the pod's status before anybody else learns them.
    pub addresses: Vec<IpAddr>,
    pub data_port: u16,
    pub static_key: [u8; 32],
    pub incarnation: [u8; 16],
    /// It takes configurations as changes.
    pub deltas: bool,
}

impl Registration {
    /// # Errors
    /// [`ReportError`] when a field is out of bounds or the pod is another than the token's.
    pub fn new(register: Register, identity: &PodIdentity) -> Result<Self, ReportError> {
        let Register {
            version,
            namespace,
            pod,
            uid,
            node,
            addresses,
            data_port,
            static_key,
            incarnation,
            features,
        } = register;
        let stated = format!("{namespace}/{pod}/{uid}");
        if stated != identity.as_str() {
            let stated = stated.chars().take(REPORTED_WORD_BYTES_MAX).collect();
            return Err(ReportError::AnotherPod { stated, actual: identity.clone() });
        }
        word("version", &version)?;
        word("node", &node)?;
        words("features", &features)?;
        let exactly = |field, expected| move |_| ReportError::Length { field, expected };
        if addresses.len() > ADDRESSES_MAX {
            return Err(ReportError::TooMany { field: "addresses", max: ADDRESSES_MAX });
        }
        Ok(Self {
            version,
            node,
            addresses: addresses
                .iter()
                .map(|address| address.parse().map_err(|_| ReportError::Address))
                .collect::<Result<_, _>>()?,
            data_port: u16::try_from(data_port).ok().filter(|port| *port > 0).ok_or(ReportError::Port)?,
            static_key: static_key.as_slice().try_into().map_err(exactly("static_key", 32))?,
            incarnation: incarnation.as_slice().try_into().map_err(exactly("incarnation", 16))?,
            deltas: features.iter().any(|feature| feature == delta::FEATURE),
        })
    }
}

/// The report within its bounds: messages are cut, anything else out of bounds is refused.
///
/// # Errors
/// [`ReportError`] names what is out of bounds.
pub fn bounded(mut report: Report) -> Result<Report, ReportError> {
    let Report { generation: _, policy, evidence, sessions, finished: _, externals } = &mut report;
    if let Some(policy) = policy {
        word("policy.digest", &policy.digest)?;
        word("policy.root_source", &policy.root_source)?;
        word("policy.reason", &policy.reason)?;
        cut(&mut policy.message);
    }
    if let Some(evidence) = evidence {
        word("evidence.platform", &evidence.platform)?;
        word("evidence.assurance", &evidence.assurance)?;
        word("evidence.measurement", &evidence.measurement)?;
        word("evidence.tcb_status", &evidence.tcb_status)?;
        word("evidence.reason", &evidence.reason)?;
        word("evidence.form", &evidence.form)?;
        words("evidence.degraded", &evidence.degraded)?;
        cut(&mut evidence.message);
    }
    if sessions.len() > REPORTED_SESSIONS_MAX {
        return Err(ReportError::TooMany { field: "sessions", max: REPORTED_SESSIONS_MAX });
    }
    sessions.iter_mut().try_for_each(session)?;
    if externals.len() > REPORTED_EXTERNALS_MAX {
        return Err(ReportError::TooMany { field: "externals", max: REPORTED_EXTERNALS_MAX });
    }
    externals.iter_mut().try_for_each(external)?;
    Ok(report)
}

fn external(external: &mut ExternalReport) -> Result<(), ReportError> {
    let ExternalReport {
        peer,
        pod,
        platform,
        assurance,
        public_key,
        evidence_time: _,
        degraded,
        reason,
        message,
    } = external;
    word("external.peer", peer)?;
    if pod.len() > POD_IDENTITY_BYTES_MAX {
        return Err(ReportError::TooLong { field: "external.pod" });
    }
    word("external.platform", platform)?;
    word("external.assurance", assurance)?;
    word("external.public_key", public_key)?;
    words("external.degraded", degraded)?;
    word("external.reason", reason)?;
    cut(message);
    Ok(())
}

fn session(session: &mut SessionReport) -> Result<(), ReportError> {
    word("session.name", &session.name)?;
    word("session.uid", &session.uid)?;
    word("session.carrier", &session.carrier)?;
    word("session.carrier_mode", &session.carrier_mode)?;
    word("session.cipher", &session.cipher)?;
    word("session.congestion", &session.congestion)?;
    word("session.reason", &session.reason)?;
    words("session.degraded", &session.degraded)?;
    cut(&mut session.message);
    cut(&mut session.carrier_message);
    Ok(())
}

fn word(field: &'static str, text: &str) -> Result<(), ReportError> {
    if text.len() <= REPORTED_WORD_BYTES_MAX { Ok(()) } else { Err(ReportError::TooLong { field }) }
}

/// Keeps the beginning of a message, up to a character boundary.
fn cut(message: &mut String) {
    if message.len() > REPORTED_MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(REPORTED_MESSAGE_BYTES_MAX));
    }
}

fn words(field: &'static str, texts: &[String]) -> Result<(), ReportError> {
    const WORDS_MAX: usize = 64;
    if texts.len() > WORDS_MAX {
        return Err(ReportError::TooMany { field, max: WORDS_MAX });
    }
    texts.iter().try_for_each(|text| word(field, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register() -> Register {
        Register {
            version: "0.1.0".to_owned(),
            namespace: "demo".to_owned(),
            pod: "embedder-0".to_owned(),
            uid: "6b5e".to_owned(),
            node: "node-1".to_owned(),
            addresses: vec!["10.0.0.7".to_owned(), "fd00::7".to_owned()],
            data_port: 14710,
            static_key: vec![1; 32],
            incarnation: vec![2; 16],
            features: Vec::new(),
        }
    }

    fn refused(change: impl FnOnce(&mut Register)) -> ReportError {
        let identity = PodIdentity::new("demo", "embedder-0", "6b5e").unwrap();
        let mut register = register();
        change(&mut register);
        Registration::new(register, &identity).unwrap_err()
    }

    #[test]
    fn registrations_are_bounded_and_of_the_tokens_pod() {
        let identity = PodIdentity::new("demo", "embedder-0", "6b5e").unwrap();
        assert_eq!(Registration::new(register(), &identity).unwrap().addresses.len(), 2);
        assert!(matches!(
            refused(|register| register.uid = "other".to_owned()),
            ReportError::AnotherPod { .. }
        ));
        assert!(matches!(
            refused(|register| register.pod = "x".repeat(9999)),
            ReportError::AnotherPod { .. }
        ));
        assert!(matches!(refused(|register| register.static_key = vec![1; 31]), ReportError::Length { .. }));
        assert!(matches!(refused(|register| register.incarnation.clear()), ReportError::Length { .. }));
        assert_eq!(refused(|register| register.data_port = 0), ReportError::Port);
        assert_eq!(refused(|register| register.data_port = 65536), ReportError::Port);
        assert_eq!(
            refused(|register| register.addresses = vec!["localhost".to_owned()]),
            ReportError::Address
        );
        assert!(matches!(
            refused(|register| register.addresses = vec!["10.0.0.1".to_owned(); 17]),
            ReportError::TooMany { .. }
        ));
        assert!(matches!(refused(|register| register.node = "x".repeat(257)), ReportError::TooLong { .. }));
        let many = refused(|register| register.features = vec!["delta".to_owned(); 65]);
        assert!(matches!(many, ReportError::TooMany { field: "features", .. }));
    }

    #[test]
    fn a_feature_counts_where_it_is_known_and_announced() {
        let identity = PodIdentity::new("demo", "embedder-0", "6b5e").unwrap();
        for (features, deltas) in
            [(vec![], false), (vec!["another"], false), (vec!["another", "delta"], true)]
        {
            let features = features.into_iter().map(str::to_owned).collect();
            let registration = Registration::new(Register { features, ..register() }, &identity).unwrap();
            assert_eq!(registration.deltas, deltas);
        }
    }

    #[test]
    fn reports_are_bounded() {
        assert_eq!(bounded(Report::default()), Ok(Report::default()));
        let many = Report { sessions: vec![SessionReport::default(); 1025], ..Default::default() };
        assert!(matches!(bounded(many), Err(ReportError::TooMany { .. })));
        let long = SessionReport { cipher: "x".repeat(257), ..Default::default() };
        let long = Report { sessions: vec![long], ..Default::default() };
        assert_eq!(bounded(long), Err(ReportError::TooLong { field: "session.cipher" }));
        let long = SessionReport { carrier_mode: "x".repeat(257), ..Default::default() };
        let long = Report { sessions: vec![long], ..Default::default() };
        assert_eq!(bounded(long), Err(ReportError::TooLong { field: "session.carrier_mode" }));
        let many = Report { externals: vec![ExternalReport::default(); 1025], ..Default::default() };
        assert!(matches!(bounded(many), Err(ReportError::TooMany { field: "externals", .. })));
        let long = ExternalReport { pod: "x".repeat(762), ..Default::default() };
        let long = Report { externals: vec![long], ..Default::default() };
        assert_eq!(bounded(long), Err(ReportError::TooLong { field: "external.pod" }));
        // A long explanation is no reason to lose the report.
        let wordy = SessionReport { message: "ä".repeat(1025), ..Default::default() };
        let cut = bounded(Report { sessions: vec![wordy], ..Default::default() }).unwrap();
        assert_eq!(cut.sessions[0].message, "ä".repeat(512));
        let wordy = SessionReport { carrier_message: "ä".repeat(1025), ..Default::default() };
        let cut = bounded(Report { sessions: vec![wordy], ..Default::default() }).unwrap();
        assert_eq!(cut.sessions[0].carrier_message, "ä".repeat(512));
    }
}
