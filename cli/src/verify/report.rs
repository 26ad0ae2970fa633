//! What an audit is printed as.

use sealane_types::{KeyId, PeerName};
use serde_json::{Value, json};

use super::check::{Check, Checks, Status};
use super::trust::{Trust, Vouched};
use crate::explain::remedy;
use crate::output::printable;

/// One replica that was asked.
#[derive(Debug)]
pub(super) struct Asked {
    /// The pod, or the address where none is known.
    pub(super) name: String,
    pub(super) checks: Checks,
}

/// Everything that was found out.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) peer: &'a PeerName,
    pub(super) trust: &'a Trust,
    pub(super) asked: Vec<Asked>,
}

/// Of the longest names of checks.
const ABOUT_CHARS: usize = 19;

impl Report<'_> {
    /// The worst of all replicas; nobody asked is a failure.
    pub(super) fn verdict(&self) -> Status {
        self.asked.iter().map(|asked| asked.checks.verdict()).max().unwrap_or(Status::Failed)
    }

    pub(super) fn failed(&self) -> usize {
        self.asked.iter().filter(|asked| asked.checks.verdict() == Status::Failed).count()
    }

    pub(super) fn text(&self) -> String {
        let Self { peer, trust, asked } = self;
        let policy = &trust.policy;
        let mut text = format!(
            "Peer {peer} under epoch {} of {}/{}, trusted by {}\n",
            policy.epoch(),
            policy.document().namespace,
            policy.document().name,
            trust.vouched.words(),
        );
        for Asked { name, checks } in asked {
            text.push_str(&format!("\n{}: {}\n", printable(name), verdict(checks.verdict())));
            checks.all().iter().for_each(|check| text.push_str(&line(check)));
        }
        text
    }

    pub(super) fn value(&self) -> Value {
        let Self { peer, trust, asked } = self;
        let Trust { policy, roots, vouched } = trust;
        let keys: Vec<KeyId> = roots.keys.iter().map(sealane_policy::key_id).collect();
        let source = match vouched {
            Vouched::Roots(_) => "Roots",
            Vouched::Policy(_) => "Policy",
            Vouched::Cluster => "Cluster",
        };
        json!({
            "peer": peer,
            "namespace": policy.document().namespace,
            "verdict": verdict(self.verdict()),
            "policy": {
                "name": policy.document().name,
                "epoch": policy.epoch(),
                "digest": policy.digest(),
                "expires": policy.expires().to_string(),
                "roots": {"from": source, "threshold": roots.threshold, "keyIds": keys},
            },
            "pods": asked.iter().map(|Asked { name, checks }| json!({
                "pod": name,
                "verdict": verdict(checks.verdict()),
                "checks": checks.all().iter().map(value).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }
}

const fn verdict(status: Status) -> &'static str {
    match status {
        Status::Ok => "Passed",
        Status::Degraded => "PassedDegraded",
        Status::Failed => "Failed",
    }
}

fn line(check: &Check) -> String {
    let Check { about, status, seen, reason } = check;
    let mark = match status {
        Status::Failed => "FAILED",
        other => other.word(),
    };
    let why = reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let remedy = match (status, reason) {
        (Status::Failed, Some(reason)) => format!("            -> {}\n", remedy(reason.as_str())),
        _ => String::new(),
    };
    format!("  {mark:<8}  {about:<ABOUT_CHARS$}  {seen}{why}\n{remedy}")
}

fn value(check: &Check) -> Value {
    let Check { about, status, seen, reason } = check;
    let mut value = json!({"check": about, "status": status.word(), "seen": seen});
    if let Some(reason) = reason {
        value["reason"] = json!(reason);
        value["remedy"] = json!(remedy(reason.as_str()));
    }
    value
}
