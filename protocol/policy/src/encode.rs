//! From a [`Document`] to the JSON tree that decodes to it. Defaults are left out where leaving them out is
//! the usual way to write them; floors are always spelled out, because owners should see them.

mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use sealane_types::ForwardPort;

use crate::document::{
    Authorities, CollateralRules, Document, Floors, Limits, PolicyPeer, SessionKind, SessionRule,
};
use crate::json::Tree;
use crate::limits::REATTEST_SECONDS_MAX;

/// Members in the making; absent and empty values leave no trace.
#[derive(Default)]
struct Members(BTreeMap<String, Tree>);

impl Members {
    fn put(mut self, name: &str, value: Tree) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    fn text(self, name: &str, value: impl Display) -> Self {
        self.put(name, text(value))
    }

    fn optional(self, name: &str, value: Option<Tree>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    fn raised(self, name: &str, flag: bool) -> Self {
        self.optional(name, flag.then_some(Tree::Flag(true)))
    }

    fn listed<T: Display>(self, name: &str, values: impl IntoIterator<Item = T>) -> Self {
        let values = list(values);
        let empty = matches!(&values, Tree::List(items) if items.is_empty());
        self.optional(name, (!empty).then_some(values))
    }

    fn trees(self, name: &str, values: impl IntoIterator<Item = Tree>) -> Self {
        let values: Vec<Tree> = values.into_iter().collect();
        self.optional(name, (!values.is_empty()).then_some(Tree::List(values)))
    }

    fn done(self) -> Tree {
        Tree::Object(self.0)
    }
}

fn text(value: impl Display) -> Tree {
    Tree::Text(value.to_string())
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> Tree {
    Tree::List(values.into_iter().map(text).collect())
}

fn ports(ports: &BTreeSet<ForwardPort>) -> Tree {
    Tree::List(ports.iter().map(|port| Tree::Integer(u64::from(port.number()))).collect())
}

pub(crate) fn document(document: &Document) -> Tree {
    let peers = document.peers.iter().map(|(name, peer)| (name.to_string(), self::peer(peer)));
    let auditors = document.auditors.as_ref();
    let auditors =
        auditors.map(|auditors| Members::default().put("publicKeys", list(&auditors.public_keys)).done());
    Members::default()
        .put("version", Tree::Integer(document.version))
        .text("namespace", &document.namespace)
        .text("name", &document.name)
        .put("epoch", Tree::Integer(document.epoch))
        .text("notBefore", document.not_before)
        .text("expires", document.expires)
        .optional("previous", document.previous.map(text))
        .put("authorities", authorities(&document.authorities))
        .put("peers", Tree::Object(peers.collect()))
        .put("sessions", Tree::List(document.sessions.iter().map(session).collect()))
        .put("floors", floors(&document.floors))
        .optional("limits", limits(&document.limits))
        .optional("collateral", collateral(&document.collateral))
        .optional("auditors", auditors)
        .done()
}

fn authorities(authorities: &Authorities) -> Tree {
    Members::default()
        .put("threshold", Tree::Integer(u64::from(authorities.threshold)))
        .put("keys", list(&authorities.keys))
        .done()
}

fn peer(peer: &PolicyPeer) -> Tree {
    Members::default()
        .put("entries", Tree::List(peer.entries.iter().map(entry::entry).collect()))
        .raised("sharedEvidence", peer.shared_evidence)
        .done()
}

fn session(rule: &SessionRule) -> Tree {
    let (kind, carried) = match &rule.kind {
        SessionKind::Stream { .. } => ("stream", Members::default()),
        SessionKind::Forward { targets } => ("forward", Members::default().put("targets", ports(targets))),
    };
    Members::default()
        .optional("name", rule.name.as_ref().map(text))
        .text("from", &rule.from)
        .put("to", list(&rule.to))
        .put(kind, carried.done())
        .optional("senders", senders(&rule.kind))
        .done()
}

fn senders(kind: &SessionKind) -> Option<Tree> {
    let SessionKind::Stream { senders_min: min @ 1.. } = kind else { return None };
    Some(Members::default().put("min", Tree::Integer(u64::from(*min))).done())
}

fn collateral(rules: &CollateralRules) -> Option<Tree> {
    let CollateralRules {
        grace_seconds,
        max_age_seconds,
        min_crl_number,
        min_crl_issued,
        min_tcb_evaluation,
    } = rules;
    let issued = min_crl_issued.iter().map(|(issuer, time)| (issuer.to_string(), text(time)));
    let issued = (!min_crl_issued.is_empty()).then(|| Tree::Object(issued.collect()));
    let numbers = min_crl_number.iter().map(|(issuer, number)| (issuer.to_string(), Tree::Integer(*number)));
    let numbers = (!min_crl_number.is_empty()).then(|| Tree::Object(numbers.collect()));
    let said = Members::default()
        .optional("graceSeconds", (*grace_seconds > 0).then_some(Tree::Integer(*grace_seconds)))
        .optional("maxAgeSeconds", max_age_seconds.map(Tree::Integer))
        .optional("minCrlNumber", numbers)
        .optional("minCrlIssued", issued)
        .optional("minTcbEvaluation", min_tcb_evaluation.map(|number| Tree::Integer(u64::from(number))))
        .done();
    (*rules != CollateralRules::default()).then_some(said)
}

fn floors(floors: &Floors) -> Tree {
    let default = Floors::default();
    let congestion = floors.congestion != default.congestion;
    let root_source = floors.root_source != default.root_source;
    Members::default()
        .put("postQuantum", Tree::Flag(floors.post_quantum))
        .put("ciphers", list(&floors.ciphers))
        .put("carriers", list(&floors.carriers))
        .optional("congestion", congestion.then(|| list(&floors.congestion)))
        .put("complete", Tree::Flag(floors.complete))
        .optional("rootSource", root_source.then(|| text(floors.root_source)))
        .done()
}

/// Releases that do not know of limits accept a document that keeps to the usual ones.
fn limits(limits: &Limits) -> Option<Tree> {
    let Limits { session_seconds, reattest_seconds } = limits;
    let reattest = (*reattest_seconds != REATTEST_SECONDS_MAX).then_some(Tree::Integer(*reattest_seconds));
    let said = Members::default()
        .put("sessionSeconds", Tree::Integer(*session_seconds))
        .optional("reattestSeconds", reattest)
        .done();
    (*limits != Limits::default()).then_some(said)
}
