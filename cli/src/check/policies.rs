//! Whether policies hold, and for how long.

use kube::ResourceExt as _;
use sealane_operator_api::TrustPolicy;
use sealane_policy::{Document, PolicyError, Timestamp, verify};
use sealane_types::Reason;

use super::Line;
use super::gather::Fact;
use super::judge::unreadable;
use crate::lifetime::Lifetime;
use crate::source::Source;

/// Owners need some time to meet and sign.
const EXPIRING_SECONDS: u64 = 48 * 60 * 60;

pub(super) fn judge(policies: &Fact<Vec<TrustPolicy>>, now: Timestamp) -> Vec<Line> {
    match policies {
        Err(error) => vec![unreadable("policies", error)],
        Ok(policies) if policies.is_empty() => {
            vec![Line::warning(
                "policies",
                "no TrustPolicy is declared, so no session can be established",
                "kubectl sealane policy init --help",
            )]
        }
        Ok(policies) => policies.iter().map(|policy| line(policy, now)).collect(),
    }
}

/// Verifies the policy here, instead of believing its status.
fn line(policy: &TrustPolicy, now: Timestamp) -> Line {
    let (namespace, name) = (policy.namespace().unwrap_or_default(), policy.name_any());
    let what = format!("policy {namespace}/{name}");
    let source = match Source::from_manifest(policy) {
        Ok(source) => source,
        Err(error) => return Line::failed(&what, format!("{error:#}"), "apply a corrected TrustPolicy"),
    };
    let Some(roots) = &source.roots else {
        return Line::failed(&what, "has no roots", "apply a corrected TrustPolicy");
    };
    match verify(&source.chain, roots, now, None) {
        Ok(verified) => {
            let Document { epoch, expires, .. } = verified.document();
            let left = Lifetime { seconds: expires.unix().0.saturating_sub(now.unix().0) };
            let detail = format!("epoch {epoch}, expires {expires}, in {left}");
            if left.seconds < EXPIRING_SECONDS {
                return Line::warning(&what, detail, next_epoch(&namespace, &name));
            }
            Line::good(&what, detail)
        }
        Err(error) => {
            let remedy = remedy(&error, &namespace, &name);
            Line::failed(&what, error.to_string(), remedy)
        }
    }
}

fn next_epoch(namespace: &str, name: &str) -> String {
    format!("sign the next epoch: kubectl sealane policy init --namespace {namespace} --name {name}")
}

fn remedy(error: &PolicyError, namespace: &str, name: &str) -> String {
    match error.reason() {
        Reason::PolicyExpired => next_epoch(namespace, name),
        Reason::PolicyUnsigned | Reason::PolicyUnderSigned => {
            "let more owners sign it: kubectl sealane policy sign --key FILE BUNDLE, then apply the manifest again"
                .to_owned()
        }
        Reason::PolicyNotYetValid => "wait, or check the clocks".to_owned(),
        _ => "correct the document, let the owners sign it, and apply its manifest".to_owned(),
    }
}
