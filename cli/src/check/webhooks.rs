//! Whether the webhooks are configured, and whether they answer. Pure.

use super::Line;
use super::gather::Facts;
use super::judge::{install, unreadable};
use super::probe::Answer;
use crate::cluster::missing_right;

pub(super) fn judge(facts: &Facts, release: &str) -> Vec<Line> {
    let mutating = facts.mutating.as_ref().map(|found| {
        found.as_ref().map(|found| {
            let webhooks = found.webhooks.iter().flatten();
            webhooks.map(|webhook| webhook.client_config.ca_bundle.is_some()).collect()
        })
    });
    let validating = facts.validating.as_ref().map(|found| {
        found.as_ref().map(|found| {
            let webhooks = found.webhooks.iter().flatten();
            webhooks.map(|webhook| webhook.client_config.ca_bundle.is_some()).collect()
        })
    });
    vec![
        configured("injection webhook", "sealane-inject", mutating, facts.injection.as_ref(), release),
        configured("validation webhook", "sealane-validate", validating, Some(&facts.validation), release),
    ]
}

/// `bundles` says for each webhook of the configuration whether its caBundle is set.
fn configured(
    what: &str,
    name: &str,
    bundles: Result<Option<Vec<bool>>, &String>,
    answer: Option<&Answer>,
    release: &str,
) -> Line {
    match bundles {
        Err(error) => unreadable(what, error),
        Ok(None) => Line::failed(what, format!("there is no configuration {name}"), install(release)),
        Ok(Some(bundles)) if bundles.is_empty() || bundles.contains(&false) => Line::failed(
            what,
            format!("{name} has no caBundle, so the API server refuses what it should check"),
            format!("the operator writes it: kubectl -n {release} logs deployment/sealane-operator"),
        ),
        Ok(Some(_)) => answered(what, name, answer, release),
    }
}

fn answered(what: &str, name: &str, answer: Option<&Answer>, release: &str) -> Line {
    match answer {
        None => {
            Line::good(what, format!("{name} is configured; no namespace has opted in, so nothing asks it"))
        }
        Some(Answer::Right) => Line::good(what, format!("{name} answers as it should")),
        Some(Answer::NotReached(words)) => Line::failed(what, words.clone(), unreached(words, release)),
        Some(Answer::Bypassed(found)) => Line::failed(
            what,
            format!("{name} was not asked: {found}"),
            format!("something has changed {name} or its selectors; {}", install(release)),
        ),
        Some(Answer::Untried(words)) if missing_right(words).is_some() => {
            Line::skipped(what, missing_right(words).unwrap_or_default())
        }
        Some(Answer::Untried(words)) => Line::warning(
            what,
            format!("{name} is configured, but whether it answers cannot be told: {words}"),
            "use a kubeconfig whose user may create Peers and pods; nothing is stored",
        ),
    }
}

/// The API server says in words what it could not do.
fn unreached(words: &str, release: &str) -> String {
    if words.contains("x509") || words.contains("certificate") {
        return format!(
            "the certificate does not fit the caBundle: the operator renews both; kubectl -n {release} delete secret sealane-certificates has it issue another certificate, which pods that run trust as well"
        );
    }
    if words.contains("no endpoints available") || words.contains("connection refused") {
        return format!(
            "Service sealane-webhook has no running webhook behind it: kubectl -n {release} get pods,endpointslices"
        );
    }
    if words.contains("not found") {
        return install(release);
    }
    format!(
        "the API server has to reach Service sealane-webhook in namespace {release}, port 443: look at NetworkPolicies, firewalls between control plane and nodes (chart values webhook.port, webhook.hostNetwork and webhook.url: docs/installing.md), and the webhook's load"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    #[test]
    fn each_way_of_not_answering_has_its_remedy() {
        let line = |answer: Option<&Answer>| {
            answered("injection webhook", "sealane-inject", answer, "sealane-system")
        };
        assert_eq!(line(None).outcome, Outcome::Good);
        assert_eq!(line(Some(&Answer::Right)).outcome, Outcome::Good);
        assert_eq!(line(Some(&Answer::Untried("forbidden".to_owned()))).outcome, Outcome::Warning);
        assert_eq!(line(Some(&Answer::Bypassed("x".to_owned()))).outcome, Outcome::Failed);
        for (words, part) in [
            ("failed calling webhook: tls: failed to verify certificate: x509: expired", "delete secret"),
            ("failed calling webhook: no endpoints available for service", "get pods"),
            ("failed calling webhook: context deadline exceeded", "NetworkPolicies"),
            ("failed calling webhook: service \"sealane-webhook\" not found", "install"),
        ] {
            let line = line(Some(&Answer::NotReached(words.to_owned())));
            assert_eq!(line.outcome, Outcome::Failed);
            assert!(line.remedy.as_ref().unwrap().contains(part), "{line:?}");
        }
    }
}
