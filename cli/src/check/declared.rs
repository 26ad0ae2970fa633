//! What Peers and sessions report, and what to do where they are not well.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use sealane_operator_api::well_known::condition::{DEGRADED, READY, VERIFIED};
use sealane_operator_api::{Peer, Phase, TransferSession, TransferSessionStatus, TrustPolicy, word};
use sealane_policy::Timestamp;
use sealane_types::Reason;

use super::Line;
use super::gather::Facts;
use super::judge::unreadable;
use super::names::some;
use crate::creations::Failure;
use crate::explain::{peer_remedy, remedies, remedy};
use crate::freshness::{REMEDY, stale_for};
use crate::objects::{Strange, UPDATE};

pub(super) fn judge(facts: &Facts, now: Timestamp) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Ok(policies) = &facts.policies {
        lines.extend(policies.iter().filter_map(policy));
    }
    // Peers that cannot be read have their line already.
    if let Ok(peers) = &facts.peers {
        lines.extend(peers.iter().flat_map(|peer| self::peer(peer, facts, now)));
    }
    match &facts.sessions {
        Ok(sessions) => {
            lines.extend(sessions.iter().flat_map(|session| self::session(session, now)));
            lines.extend(paced_by_timers(sessions, now));
        }
        Err(error) => lines.push(unreadable("sessions", error)),
    }
    lines.extend(facts.strange.iter().map(strange));
    lines
}

/// Sessions over TCP that the kernel slows down: its bbr needs fq where packets leave, and paces itself by timers where there is
/// none.
fn paced_by_timers(sessions: &[TransferSession], now: Timestamp) -> Option<Line> {
    let under_bbr = |session: &&TransferSession| {
        // What is over is told still, and no news.
        let is_open = |status: &&TransferSessionStatus| {
            status.connections > Some(0) && stale_for(status.stale_after.as_ref(), now).is_none()
        };
        let status = session.status.as_ref().filter(is_open);
        let words = status.and_then(|status| status.congestion.as_deref()).unwrap_or_default();
        words.split('+').any(|word| word == "bbr")
    };
    let names: Vec<String> = sessions
        .iter()
        .filter(under_bbr)
        .map(|session| format!("{}/{}", session.namespace().unwrap_or_default(), session.name_any()))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        Line::warning(
            "congestion control",
            format!(
                "TCP under the kernel's bbr, which is slow where packets leave without an fq queue, as those of pods with a network of their own do: {}",
                some(&names)
            ),
            "set net.ipv4.tcp_congestion_control to cubic on the nodes; pods on the host's network may keep bbr where `tc qdisc show` says fq",
        )
    })
}

fn strange(strange: &Strange) -> Line {
    let (kind, name) = strange.what.split_once('/').unwrap_or(("object", &strange.what));
    let what = format!("{kind} {}/{name}", strange.namespace.as_deref().unwrap_or_default());
    Line::warning(&what, &strange.message, UPDATE)
}

/// Nothing is well because a status says so that nobody looks after.
fn stale(what: &str, until: Option<&Time>, now: Timestamp) -> Option<Line> {
    let age = stale_for(until, now)?;
    Some(Line::failed(what, format!("its status is STALE: no operator has written it for {age}"), REMEDY))
}

fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn says(condition: &Condition) -> String {
    format!("{}: {}", condition.reason, condition.message)
}

fn not_reported(what: &str) -> Line {
    Line::failed(what, "the operator has not reported on it", remedy(word::NOT_REPORTED))
}

/// What only an observer over time can tell of a policy; the rest is verified here.
fn policy(policy: &TrustPolicy) -> Option<Line> {
    let what = format!("policy {}/{}", policy.namespace().unwrap_or_default(), policy.name_any());
    let status = policy.status.as_ref()?;
    let verified = condition(&status.conditions, VERIFIED).filter(|found| found.status == "False")?;
    let seen_in_time = [Reason::PolicyRolledBack, Reason::PolicyConflict].map(Reason::as_str);
    seen_in_time
        .contains(&verified.reason.as_str())
        .then(|| Line::failed(&what, says(verified), remedy(&verified.reason)))
}

fn peer(peer: &Peer, facts: &Facts, now: Timestamp) -> Vec<Line> {
    let what = format!("peer {}/{}", peer.namespace().unwrap_or_default(), peer.name_any());
    let Some(status) = &peer.status else { return vec![not_reported(&what)] };
    let Some(ready) = condition(&status.conditions, READY) else { return vec![not_reported(&what)] };
    if let Some(stale) = stale(&what, status.stale_after.as_ref(), now) {
        return vec![stale];
    }
    let mut lines = Vec::new();
    if ready.status == "True" && ready.reason == Reason::Finished.as_str() {
        lines.push(Line::good(&what, "its work is finished"));
    } else if ready.status == "True" {
        let replicas = format!("{} of {} replicas", status.ready.unwrap_or(0), status.desired.unwrap_or(0));
        lines.push(Line::good(&what, format!("{replicas} ready")));
    } else if ready.reason == Reason::NoReplicas.as_str() {
        lines.push(without_replicas(&what, peer, ready, &facts.failures));
    } else if ready.reason == word::NOT_CONNECTED {
        lines.push(Line::warning(&what, says(ready), remedy(&ready.reason)));
    } else {
        lines.push(Line::failed(&what, says(ready), peer_remedy(&ready.reason)));
        lines.extend(replicas(&what, peer, &ready.reason));
    }
    lines.extend(degraded(&what, &status.conditions));
    lines.extend(behind(&what, peer, facts));
    lines
}

/// Nobody may have started its workload, which is no fault, or its pods are refused.
fn without_replicas(what: &str, peer: &Peer, ready: &Condition, failures: &[Failure]) -> Line {
    let remedy = peer_remedy(&ready.reason);
    match Failure::of_namespace(failures, &peer.namespace().unwrap_or_default()) {
        Some(failure) => {
            Line::failed(what, format!("{}; in its namespace {}", says(ready), failure.text()), remedy)
        }
        None => Line::warning(what, says(ready), remedy),
    }
}

/// Replicas that are not ready for another reason than the one that the Peer states.
fn replicas(what: &str, peer: &Peer, stated: &str) -> Vec<Line> {
    let unready = peer.status.iter().flat_map(|status| &status.replicas).filter(|replica| !replica.ready);
    let mut told: Vec<&str> = vec![stated];
    let mut lines = Vec::new();
    for replica in unready {
        let reason = replica.reason.as_deref().unwrap_or(word::NOT_REPORTED);
        if told.contains(&reason) {
            continue;
        }
        told.push(reason);
        let message = replica.message.as_deref().unwrap_or_default();
        lines.push(Line::failed(what, format!("pod {}: {reason}: {message}", replica.pod), remedy(reason)));
    }
    lines
}

fn degraded(what: &str, conditions: &[Condition]) -> Option<Line> {
    let degraded = condition(conditions, DEGRADED).filter(|degraded| degraded.status == "True")?;
    let remedy = remedies(&degraded.reason, &degraded.message);
    Some(Line::warning(what, format!("degraded: {}", says(degraded)), remedy))
}

/// Replicas that still act by an older epoch than the one that is applied.
fn behind(what: &str, peer: &Peer, facts: &Facts) -> Option<Line> {
    let status = peer.status.as_ref()?;
    let policy = facts.policies.as_ref().ok()?.iter().find(|policy| {
        policy.namespace() == peer.namespace() && policy.name_any() == peer.spec.trust_policy_ref.name
    })?;
    let applied = policy.status.as_ref()?.epoch?;
    let lowest = status.policy_epoch.filter(|lowest| *lowest < applied)?;
    let behind: Vec<&str> = status
        .replicas
        .iter()
        .filter(|replica| replica.policy_epoch.is_some_and(|epoch| epoch < applied))
        .map(|replica| replica.pod.as_str())
        .collect();
    let detail = format!("epoch {lowest} is still in use, epoch {applied} is applied: {}", some(&behind));
    Some(Line::warning(what, detail, remedy(word::EPOCH_BEHIND)))
}

fn session(session: &TransferSession, now: Timestamp) -> Vec<Line> {
    let what = format!("session {}/{}", session.namespace().unwrap_or_default(), session.name_any());
    let Some(status) = &session.status else { return vec![not_reported(&what)] };
    let Some(ready) = condition(&status.conditions, READY) else { return vec![not_reported(&what)] };
    if let Some(stale) = stale(&what, status.stale_after.as_ref(), now) {
        return vec![stale];
    }
    // Waiting for pods, or standing still because somebody wants it so, is no fault.
    let waits = [
        Reason::NoReplicas.as_str(),
        Reason::SessionSuspended.as_str(),
        word::CONNECTING,
        word::NOT_CONNECTED,
    ];
    let line = match status.phase {
        _ if ready.status == "True" => Line::good(&what, says(ready)),
        Some(Phase::Suspended) => Line::warning(&what, says(ready), remedy(&ready.reason)),
        _ if waits.contains(&ready.reason.as_str()) => {
            Line::warning(&what, says(ready), remedy(&ready.reason))
        }
        _ => Line::failed(&what, says(ready), remedy(&ready.reason)),
    };
    std::iter::once(line).chain(degraded(&what, &status.conditions)).collect()
}

#[cfg(test)]
mod tests;
