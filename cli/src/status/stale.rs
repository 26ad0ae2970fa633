//! Statuses that no operator keeps up to date: one cause, told once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use sealane_policy::Timestamp;
use serde_json::{Value, json};

use super::Declared;
use crate::freshness::{REMEDY, stale_for};
use crate::lifetime::Lifetime;

/// Objects that are named.
const NAMED_MAX: usize = 3;

/// Those of a listing, the longest first.
#[derive(Debug)]
pub(super) struct Stale {
    /// `KIND/NAME`, and for how long.
    objects: Vec<(String, Lifetime)>,
    /// Of how many.
    all: usize,
}

impl Stale {
    /// None where every status is up to date.
    pub(super) fn of(declared: &Declared, now: Timestamp) -> Option<Self> {
        let Declared { namespace, peers, sessions, policies, failures: _, strange: _ } = declared;
        let many = namespace.is_none();
        let peers = peers
            .iter()
            .map(|peer| (name(peer, "peer", many), until(peer.status.as_ref(), |s| &s.stale_after)));
        let sessions = sessions.iter().map(|session| {
            (name(session, "transfersession", many), until(session.status.as_ref(), |s| &s.stale_after))
        });
        let policies = policies.iter().map(|policy| {
            (name(policy, "trustpolicy", many), until(policy.status.as_ref(), |s| &s.stale_after))
        });
        let stated: Vec<(String, Option<&Time>)> = peers.chain(sessions).chain(policies).collect();
        let all = stated.len();
        let stale = stated.into_iter().filter_map(|(name, until)| Some((name, stale_for(until, now)?)));
        let mut objects: Vec<_> = stale.collect();
        objects.sort_by_key(|(_, age)| std::cmp::Reverse(age.seconds));
        (!objects.is_empty()).then_some(Self { objects, all })
    }

    fn says(&self) -> String {
        let named: Vec<&str> = self.objects.iter().take(NAMED_MAX).map(|(name, _)| name.as_str()).collect();
        let rest = self.objects.len().saturating_sub(named.len());
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let longest = self.objects.first().map(|(_, age)| age.to_string()).unwrap_or_default();
        let (count, all) = (self.objects.len(), self.all);
        format!(
            "no operator has kept {count} of {all} statuses up to date, for {longest}: {}{rest}",
            named.join(", ")
        )
    }

    pub(super) fn text(&self) -> String {
        format!("STALE: {}\n      -> {REMEDY}\n", self.says())
    }

    pub(super) fn value(&self) -> Value {
        let object = |(name, age): &(String, Lifetime)| json!({"object": name, "seconds": age.seconds});
        json!({
            "message": self.says(), "remedy": REMEDY,
            "objects": self.objects.iter().map(object).collect::<Vec<_>>(),
        })
    }
}

fn until<S>(status: Option<&S>, field: impl Fn(&S) -> &Option<Time>) -> Option<&Time> {
    field(status?).as_ref()
}

fn name(object: &impl ResourceExt, kind: &str, many_namespaces: bool) -> String {
    let place = object.namespace().filter(|_| many_namespaces).map(|namespace| format!("{namespace} "));
    format!("{}{kind}/{}", place.unwrap_or_default(), object.name_any())
}
