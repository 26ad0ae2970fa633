//! What a draft is made from, and the document that comes of it. Pure: whoever calls it has gathered
//! everything.

use std::collections::{BTreeMap, BTreeSet};

use sealane_policy::{
    Auditors, Authorities, CollateralRules, Document, Entry, Floors, Limits, PolicyPeer, Reference,
    SessionRule, SnpPermissions, SnpReference, Tcb, Timestamp,
};
use sealane_types::{
    Assurance, Digest, HostData, Measurement, Namespace, PeerName, PolicyName, Product, SimulatedForm,
};

use super::simulated;

/// What the replicas of a Peer have to prove, apart from HOST_DATA where that is stated for each Peer.
#[derive(Debug, Clone)]
pub(super) enum Proof {
    Simulated {
        form: SimulatedForm,
        root: Digest,
        measurements: BTreeSet<Measurement>,
    },
    SevSnp {
        assurance: Assurance,
        measurements: BTreeSet<Measurement>,
        products: BTreeSet<Product>,
        min_tcb: Tcb,
    },
    /// What evidence showed.
    Shown(Box<Entry>),
}

impl Proof {
    pub(super) fn has_host_data(&self) -> bool {
        match self {
            Self::Simulated { form, .. } => *form == SimulatedForm::SevSnp,
            Self::SevSnp { .. } => true,
            Self::Shown(entry) => matches!(entry.reference, Reference::SevSnp(_)),
        }
    }
}

/// What owners decided for every connection and do not say again for every epoch.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    pub(super) floors: Floors,
    pub(super) limits: Limits,
    pub(super) collateral: CollateralRules,
}

#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) namespace: Namespace,
    pub(super) name: PolicyName,
    pub(super) epoch: u64,
    pub(super) previous: Option<Digest>,
    pub(super) not_before: Timestamp,
    pub(super) expires: Timestamp,
    pub(super) authorities: Authorities,
    pub(super) rules: Rules,
    pub(super) auditors: Option<Auditors>,
    pub(super) proofs: BTreeMap<PeerName, Proof>,
    pub(super) sessions: Vec<SessionRule>,
    pub(super) host_data: BTreeMap<PeerName, BTreeSet<HostData>>,
}

impl Draft {
    pub(super) fn document(self) -> Document {
        let Self {
            namespace,
            name,
            epoch,
            previous,
            not_before,
            expires,
            authorities,
            rules: Rules { floors, limits, collateral },
            auditors,
            proofs,
            sessions,
            mut host_data,
        } = self;
        let peers = proofs
            .into_iter()
            .map(|(peer, proof)| {
                let host_data = host_data.remove(&peer).unwrap_or_default();
                let entry = entry(proof, host_data, &namespace, &peer);
                (peer, PolicyPeer { entries: vec![entry], shared_evidence: false })
            })
            .collect();
        Document {
            version: 1,
            namespace,
            name,
            epoch,
            not_before,
            expires,
            previous,
            authorities,
            peers,
            sessions,
            floors,
            limits,
            collateral,
            auditors,
        }
    }
}

/// The initdata that a simulated pod of `peer` gets from the webhook unless it brings its own. Its digest is
/// the pod's identity, so the text is part of the contract between webhook and policies.
fn simulated_initdata(namespace: &Namespace, peer: &PeerName) -> String {
    format!("sealane simulated initdata\nnamespace: {namespace}\npeer: {peer}\n")
}

fn entry(proof: Proof, host_data: BTreeSet<HostData>, namespace: &Namespace, peer: &PeerName) -> Entry {
    match proof {
        Proof::Shown(mut entry) => {
            if let (Reference::SevSnp(snp), false) = (&mut entry.reference, host_data.is_empty()) {
                snp.host_data = host_data;
            }
            *entry
        }
        Proof::Simulated { form, root, measurements } => {
            let initdata = simulated_initdata(namespace, peer);
            let mut reference = simulated::reference(form, measurements, initdata.as_bytes());
            if let (Reference::SevSnp(snp), false) = (&mut reference, host_data.is_empty()) {
                snp.host_data = host_data;
            }
            Entry {
                assurance: Assurance::Simulated,
                root: Some(root),
                workload: None,
                unverified_workload: false,
                reference,
            }
        }
        Proof::SevSnp { assurance, measurements, products, min_tcb } => Entry {
            assurance,
            root: None,
            workload: None,
            unverified_workload: false,
            reference: Reference::SevSnp(SnpReference {
                measurements,
                host_data,
                // Whoever names it permits it, and is told what that means.
                permissions: SnpPermissions {
                    milan: products.contains(&Product::Milan),
                    ..SnpPermissions::default()
                },
                products,
                min_tcb,
                ..SnpReference::default()
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use sealane_policy::digest_of;

    use super::*;

    #[test]
    fn simulated_host_data_is_that_of_the_webhooks_text() {
        let text = simulated_initdata(&"demo".parse().unwrap(), &"embedder".parse().unwrap());
        assert_eq!(text, "sealane simulated initdata\nnamespace: demo\npeer: embedder\n");
        let digest = digest_of(text.as_bytes()).to_string();
        // printf 'sealane simulated initdata\nnamespace: demo\npeer: embedder\n' | sha256sum
        assert_eq!(digest, "345cc109be33c7a593ebecf33bcd17a01670ff552041969a1f633b657003b57d");
    }
}
