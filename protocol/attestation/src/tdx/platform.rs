//! Intel's extension of a platform's certificate ("SGX PCK Certificate and CRL Profile Specification", §1.3.5).

use sealane_types::{Fmspc, PlatformId};
use x509_cert::Certificate;
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Reader, SliceReader, Tag, Tagged};

use crate::der;
use crate::rejection::Rejection;

const EXTENSION: ObjectIdentifier = oid("1.2.840.113741.1.13.1");
const PPID: ObjectIdentifier = oid("1.2.840.113741.1.13.1.1");
const TCB: ObjectIdentifier = oid("1.2.840.113741.1.13.1.2");
const PCE_ID: ObjectIdentifier = oid("1.2.840.113741.1.13.1.3");
const FMSPC: ObjectIdentifier = oid("1.2.840.113741.1.13.1.4");
const CONFIGURATION: ObjectIdentifier = oid("1.2.840.113741.1.13.1.7");
const DYNAMIC_PLATFORM: ObjectIdentifier = oid("1.2.840.113741.1.13.1.7.1");
const CACHED_KEYS: ObjectIdentifier = oid("1.2.840.113741.1.13.1.7.2");
const SMT_ENABLED: ObjectIdentifier = oid("1.2.840.113741.1.13.1.7.3");
/// Below `TCB`: components 1 to 16, then the version of the provisioning certification enclave.
const COMPONENTS: usize = 16;
const PCE_SVN: u32 = 17;

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

const UNTRUSTED: Rejection = Rejection::Untrusted("Intel's extension of the PCK certificate");

/// What a platform's certificate says of it.
#[derive(Debug)]
pub(super) struct Platform {
    /// PPID.
    pub(super) id: Option<PlatformId>,
    pub(super) fmspc: Fmspc,
    pub(super) pce_id: [u8; 2],
    /// Security version numbers of the processor's components.
    pub(super) components: [u8; COMPONENTS],
    pub(super) pce_svn: u16,
    /// None where the certificate does not say.
    pub(super) dynamic_platform: Option<bool>,
    pub(super) cached_keys: Option<bool>,
    pub(super) smt: Option<bool>,
}

impl Platform {
    pub(super) fn read(certificate: &Certificate) -> Result<Self, Rejection> {
        let extensions = certificate.tbs_certificate.extensions.as_deref().unwrap_or_default();
        let mut found = extensions.iter().filter(|extension| extension.extn_id == EXTENSION);
        let (Some(extension), None) = (found.next(), found.next()) else { return Err(UNTRUSTED) };
        Self::parse(extension.extn_value.as_bytes()).ok_or(UNTRUSTED)
    }

    fn parse(value: &[u8]) -> Option<Self> {
        let entries = Entries::of(der::decode::<AnyRef<'_>>(value)?)?;
        let tcb = Entries::of(entries.find(TCB)?)?;
        let configuration = entries.find(CONFIGURATION).map(Entries::of);
        let configuration = match configuration {
            Some(None) => return None,
            Some(Some(configuration)) => configuration,
            None => Entries(Vec::new()),
        };
        let id = match entries.find(PPID) {
            Some(id) => Some(PlatformId::new(octets(id)?)),
            None => None,
        };
        let mut components = [0; COMPONENTS];
        for (component, number) in components.iter_mut().zip(1_u32..) {
            *component = tcb.find(TCB.push_arc(number).ok()?)?.decode_as().ok()?;
        }
        Some(Self {
            id,
            fmspc: Fmspc::new(octets(entries.find(FMSPC)?)?),
            pce_id: octets(entries.find(PCE_ID)?)?,
            components,
            pce_svn: tcb.find(TCB.push_arc(PCE_SVN).ok()?)?.decode_as().ok()?,
            dynamic_platform: configuration.flag(DYNAMIC_PLATFORM)?,
            cached_keys: configuration.flag(CACHED_KEYS)?,
            smt: configuration.flag(SMT_ENABLED)?,
        })
    }
}

fn octets<const N: usize>(value: AnyRef<'_>) -> Option<[u8; N]> {
    (value.tag() == Tag::OctetString).then(|| value.value().try_into().ok()).flatten()
}

/// A sequence of pairs of a name and its value, each name at most once.
struct Entries<'a>(Vec<(ObjectIdentifier, AnyRef<'a>)>);

impl<'a> Entries<'a> {
    fn of(sequence: AnyRef<'a>) -> Option<Self> {
        let mut reader = contents(sequence)?;
        let mut entries: Vec<(ObjectIdentifier, AnyRef<'a>)> = Vec::new();
        while !reader.is_finished() {
            let mut pair = contents(AnyRef::decode(&mut reader).ok()?)?;
            let name = ObjectIdentifier::decode(&mut pair).ok()?;
            let value = AnyRef::decode(&mut pair).ok()?;
            if !pair.is_finished() || entries.iter().any(|(known, _)| *known == name) {
                return None;
            }
            entries.push((name, value));
        }
        Some(Self(entries))
    }

    fn find(&self, name: ObjectIdentifier) -> Option<AnyRef<'a>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The outer None is for a value that is no flag.
    fn flag(&self, name: ObjectIdentifier) -> Option<Option<bool>> {
        match self.find(name) {
            Some(value) => value.decode_as().ok().map(Some),
            None => Some(None),
        }
    }
}

fn contents(sequence: AnyRef<'_>) -> Option<SliceReader<'_>> {
    (sequence.tag() == Tag::Sequence).then(|| SliceReader::new(sequence.value()).ok()).flatten()
}
