//! Whether policy and configuration permit a session, as far as this side can tell before anybody is connected.

use std::collections::BTreeMap;

use sealane_policy::VerifiedPolicy;
use sealane_types::{Carrier, CongestionChoice, CongestionControl, PeerName, Reason};

use super::phase::Phase;
use super::readiness::{Readiness, is_refusal};
use crate::context::Context;
use crate::desired::{Direction, Session};
use crate::policy::Standing;

/// Why a session is not permitted, or not yet; None when it is.
pub(crate) fn forbidden(context: &Context, session: &Session) -> Option<Readiness> {
    let held = match context.policy.standing() {
        Standing::InForce(held) => held,
        Standing::Closed { reason: Reason::PolicyMissing, message } => {
            return Some(Readiness::waiting(Reason::PolicyMissing, message));
        }
        Standing::Closed { reason, message } => return Some(Readiness::refused(reason, message)),
    };
    let Some(own) = context.own_peer() else {
        return Some(Readiness::waiting(Reason::NotConfigured, "this pod belongs to no Peer yet"));
    };
    if let Err((reason, message)) = carried(&held.policy, context, session) {
        return Some(Readiness::refused(reason, message));
    }
    let refused = |peer: &PeerName| {
        let (from, to) = match session.direction {
            Direction::Sending => (&own, peer),
            Direction::Receiving => (peer, &own),
        };
        held.policy.permits(&session.name, from, to, session.flow()).err()
    };
    let error = session.remotes.iter().find_map(|remote| refused(&remote.peer))?;
    Some(Readiness::refused(error.reason(), error.to_string()))
}

/// How many replicas of which Peers must have closed before a receiver of `session` ends; without a policy nobody says so.
pub(super) fn senders(context: &Context, session: &Session) -> Option<BTreeMap<PeerName, u32>> {
    let (standing, own) = (context.policy.standing(), context.own_peer()?);
    let held = standing.held().ok()?;
    let listed = |peer: &PeerName| session.remotes.iter().any(|remote| remote.peer == *peer);
    Some(held.policy.senders_min(&session.name, &own, &listed))
}

/// Whether the policy lists what a session can be carried by, and what takes the place of what it names where that cannot be
/// had: UDP that of AF_XDP, nothing that of others; and whether it lists the congestion control that the session names.
pub(super) fn carried(
    policy: &VerifiedPolicy,
    context: &Context,
    session: &Session,
) -> Result<(), (Reason, String)> {
    let open = session.carriers();
    if !open.iter().any(|carrier| listed(policy, *carrier).is_ok()) {
        let words: Vec<&str> = open.iter().map(|carrier| carrier.as_str()).collect();
        let message = format!("the policy does not list carrier {}", words.join(" or "));
        return Err((Reason::CarrierRefused, message));
    }
    if open.iter().any(|carrier| *carrier != Carrier::Tcp && listed(policy, *carrier).is_ok()) {
        let message = || format!("the policy does not list congestion control {}", session.congestion);
        congestion(policy, session.congestion).map_err(|reason| (reason, message()))?;
    }
    match context.endpoint.device() {
        Err(why) if session.carrier == Some(Carrier::AfXdp) && listed(policy, Carrier::Udp).is_err() => {
            let message =
                format!("carrier AfXdp cannot be had here, and the policy does not list Udp: {why}");
            Err((Reason::CarrierRefused, message))
        }
        _ => Ok(()),
    }
}

/// Whether the policy lists `carrier`.
pub(super) fn listed(policy: &VerifiedPolicy, carrier: Carrier) -> Result<(), Reason> {
    let is_listed = policy.document().floors.carriers.contains(&carrier);
    if is_listed { Ok(()) } else { Err(Reason::CarrierRefused) }
}

/// The congestion control for `wanted`: what it names, if the policy lists that; for `Auto` all that is listed.
pub(super) fn congestion(
    policy: &VerifiedPolicy,
    wanted: CongestionChoice,
) -> Result<CongestionChoice, Reason> {
    let floors = &policy.document().floors;
    let [cubic, bbr] =
        [CongestionControl::Cubic, CongestionControl::Bbr].map(|one| floors.congestion.contains(&one));
    match wanted {
        CongestionChoice::Auto if cubic && bbr => Ok(CongestionChoice::Auto),
        CongestionChoice::Auto | CongestionChoice::Cubic if cubic => Ok(CongestionChoice::Cubic),
        CongestionChoice::Auto | CongestionChoice::Bbr if bbr => Ok(CongestionChoice::Bbr),
        _ => Err(Reason::CongestionRefused),
    }
}

/// Whether one of the replicas of `peer` that are dialled is connected, or why none is.
pub(crate) fn connected(peer: &PeerName, phases: &[Phase]) -> Readiness {
    if phases.iter().any(Phase::is_established) {
        return Readiness::Ready;
    }
    let Some((reason, message)) = phases.iter().find_map(Phase::problem) else {
        let (reason, message) = if phases.is_empty() {
            (Reason::NoReplicas, format!("Peer `{peer}` has no replica yet"))
        } else {
            (Reason::Unreachable, format!("no replica of Peer `{peer}` is connected yet"))
        };
        return Readiness::Waiting { reason, message };
    };
    let message = format!("no replica of Peer `{peer}` is connected: {message}");
    let refused = |phase: &Phase| phase.problem().is_some_and(|(reason, _)| is_refusal(reason));
    if phases.iter().all(refused) {
        Readiness::Refused { reason, message }
    } else {
        Readiness::Waiting { reason, message }
    }
}
