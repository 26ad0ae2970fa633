//! Last readable forms of objects.
//!
//! An object that a newer release has written anew may not be readable any more. What runs by it goes on by the form that
//! was read last, for as long as this operator leads and the object is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::ObjectMeta;
use sealane_operator_api::{Peer, TransferSession, TrustPolicy};

use crate::spec::Unreadable;
use crate::watch::Guarded;

/// Readable forms of one namespace, by uid.
type FormsByUid<K> = BTreeMap<String, Arc<Guarded<K>>>;

/// Of one kind, by namespace.
#[derive(Debug)]
struct Kept<K>(Mutex<BTreeMap<String, FormsByUid<K>>>);

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Kept<K> {
    /// The readable forms of what is there now, in the order of names; what cannot be read goes to `unreadable`.
    fn forms(
        &self,
        namespace: &str,
        objects: impl IntoIterator<Item = Arc<Guarded<K>>>,
        unreadable: &mut Vec<Unreadable>,
    ) -> Vec<K> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = kept.remove(namespace).unwrap_or_default();
        let (mut forms, mut now) = (Vec::new(), BTreeMap::new());
        for guarded in objects {
            let uid = guarded.meta().uid.clone().unwrap_or_default();
            let form = match &guarded.0 {
                Ok(_) => Some(guarded),
                Err(error) => {
                    let form = before.remove(&uid).filter(|_| !uid.is_empty());
                    let (reference, kept) = (reference::<K>(&error.metadata), form.is_some());
                    unreadable.push(Unreadable { reference, error: error.error.clone(), kept });
                    form
                }
            };
            if let Some(form) = form {
                forms.extend(form.0.as_ref().ok().cloned());
                now.insert(uid, form);
            }
        }
        if !now.is_empty() {
            kept.insert(namespace.to_owned(), now);
        }
        forms.sort_by(|left, right| left.meta().name.cmp(&right.meta().name));
        forms
    }
}

fn reference<K: Resource<DynamicType = ()>>(meta: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..ObjectReference::default()
    }
}

/// Of every kind that a reconciliation reads.
#[derive(Debug, Default)]
pub(super) struct Readable {
    peers: Kept<Peer>,
    sessions: Kept<TransferSession>,
    policies: Kept<TrustPolicy>,
    /// By namespace: uid and version of what was told to be unreadable.
    told: Mutex<BTreeMap<String, BTreeSet<(String, String)>>>,
}

/// What a namespace declares, as far as it was ever read.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) peers: Vec<Peer>,
    pub(super) sessions: Vec<TransferSession>,
    pub(super) policies: Vec<TrustPolicy>,
    pub(super) unreadable: Vec<Unreadable>,
}

impl Readable {
    pub(super) fn declared(
        &self,
        namespace: &str,
        peers: impl IntoIterator<Item = Arc<Guarded<Peer>>>,
        sessions: impl IntoIterator<Item = Arc<Guarded<TransferSession>>>,
        policies: impl IntoIterator<Item = Arc<Guarded<TrustPolicy>>>,
    ) -> Declared {
        let mut unreadable = Vec::new();
        Declared {
            peers: self.peers.forms(namespace, peers, &mut unreadable),
            sessions: self.sessions.forms(namespace, sessions, &mut unreadable),
            policies: self.policies.forms(namespace, policies, &mut unreadable),
            unreadable,
        }
    }

    /// Those of `unreadable`, which are all of the namespace, that nobody was told of in this version.
    pub(super) fn news<'a>(&self, namespace: &str, unreadable: &'a [Unreadable]) -> Vec<&'a Unreadable> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.remove(namespace).unwrap_or_default();
        let key = |object: &Unreadable| {
            let ObjectReference { uid, resource_version, .. } = &object.reference;
            (uid.clone().unwrap_or_default(), resource_version.clone().unwrap_or_default())
        };
        if !unreadable.is_empty() {
            told.insert(namespace.to_owned(), unreadable.iter().map(key).collect());
        }
        unreadable.iter().filter(|object| !before.contains(&key(object))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::reconcile::fixture;

    fn guarded(session: &Value) -> Arc<Guarded<TransferSession>> {
        Arc::new(serde_json::from_value(session.clone()).unwrap())
    }

    fn of(readable: &Readable, sessions: Vec<Arc<Guarded<TransferSession>>>) -> Declared {
        readable.declared("demo", [], sessions, [])
    }

    /// Otherwise a word of a newer release takes the session out of the configurations of all running sidecars.
    #[test]
    fn what_cannot_be_read_any_more_goes_on_as_it_was_read_last() {
        let readable = Readable::default();
        let mut session = json!(fixture::session());
        session["spec"]["rekey"] = json!({"messages": 5_000});
        assert!(of(&readable, vec![guarded(&session)]).unreadable.is_empty());
        session["spec"]["carrier"] = json!("Quic");
        for _ in 0..2 {
            let found = of(&readable, vec![guarded(&session)]);
            assert_eq!(found.sessions[0].spec.rekey.messages, 5_000);
            let [unreadable] = found.unreadable.as_slice() else { panic!("{found:?}") };
            assert!(unreadable.kept && unreadable.error.contains("Quic"), "{unreadable:?}");
        }
        session["spec"]["carrier"] = json!("Udp");
        let found = of(&readable, vec![guarded(&session)]);
        assert!(found.unreadable.is_empty() && found.sessions.len() == 1);
    }

    #[test]
    fn nothing_is_kept_of_an_object_that_is_gone_or_was_made_anew() {
        let readable = Readable::default();
        let mut session = json!(fixture::session());
        drop(of(&readable, vec![guarded(&session)]));
        session["spec"]["carrier"] = json!("Quic");
        session["metadata"]["uid"] = json!("another-uid");
        let found = of(&readable, vec![guarded(&session)]);
        assert!(found.sessions.is_empty() && !found.unreadable[0].kept);
        session["metadata"]["uid"] = json!("session-uid");
        assert!(of(&readable, vec![guarded(&session)]).sessions.is_empty(), "it was gone in between");
        assert!(of(&readable, vec![]).unreadable.is_empty());
    }

    #[test]
    fn each_version_is_told_once() {
        let readable = Readable::default();
        let mut session = json!(fixture::session());
        session["spec"]["carrier"] = json!("Quic");
        let told = |session: &Value| {
            let found = of(&readable, vec![guarded(session)]);
            readable.news("demo", &found.unreadable).len()
        };
        assert_eq!((told(&session), told(&session)), (1, 0));
        session["metadata"]["resourceVersion"] = json!("7");
        assert_eq!((told(&session), told(&session)), (1, 0));
    }
}
