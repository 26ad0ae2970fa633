//! A document in words.

mod entry;

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use sealane_policy::{
    CollateralRules, Document, Entry, Floors, PolicyPeer, SessionKind, SessionRule, Timestamp, key_id,
};
use sealane_types::{Cipher, KeyId, RootSource};

use crate::lifetime::Lifetime;

/// Enough of a digest to compare it by eye.
const SHORT_CHARS: usize = 16;

pub(crate) fn short(key: &KeyId) -> String {
    shorten(key)
}

fn shorten(value: impl Display) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(SHORT_CHARS).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// The whole document: who, what each must prove, who may talk to whom.
pub(crate) fn describe(document: &Document, now: Timestamp) -> String {
    let Document {
        version: _,
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
    } = document;
    let mut lines = Lines::default();
    lines.at(0, format!("Policy {name} of namespace {namespace}, epoch {epoch}"));
    lines.at(
        1,
        format!("in force from {not_before} until {expires}{}", remaining(*not_before, *expires, now)),
    );
    if let Some(previous) = previous {
        lines.at(1, format!("follows the document with SHA-256 {previous}"));
    }
    lines.at(0, "");
    lines.at(
        0,
        format!(
            "Owners: {} of {} must sign the next document",
            authorities.threshold,
            authorities.keys.len()
        ),
    );
    for key in &authorities.keys {
        lines.at(1, format!("{key} (key id {})", short(&key_id(key))));
    }
    lines.at(0, "");
    lines.at(0, "Who takes part, and what a replica must prove");
    for (name, peer) in peers {
        describe_peer(&mut lines, name.as_str(), peer);
    }
    lines.at(0, "");
    lines.at(0, "Who may talk to whom; everything else is refused");
    if sessions.is_empty() {
        lines.at(1, "nobody: no session is permitted");
    }
    for session in sessions {
        lines.at(1, describe_session(session));
    }
    lines.at(0, "");
    lines.at(0, "Every connection");
    describe_floors(&mut lines, floors);
    let life = Lifetime { seconds: limits.session_seconds };
    lines.at(
        1,
        format!(
            "ends after {life}, however often it is attested again, and begins anew with a full handshake"
        ),
    );
    let attested = Lifetime { seconds: limits.reattest_seconds };
    lines.at(
        1,
        format!("is attested again after {attested} at the latest, or as soon as the control plane asks for"),
    );
    describe_collateral(&mut lines, collateral);
    if let Some(auditors) = auditors {
        lines.at(
            1,
            format!("evidence may be asked for without a session by: {}", list(&auditors.public_keys)),
        );
    }
    lines.0
}

/// One way to prove oneself.
pub(crate) fn describe_entry(entry: &Entry) -> String {
    let mut lines = Lines::default();
    entry::describe(&mut lines, entry);
    lines.0
}

fn describe_collateral(lines: &mut Lines, rules: &CollateralRules) {
    let CollateralRules {
        grace_seconds,
        max_age_seconds,
        min_crl_number,
        min_crl_issued,
        min_tcb_evaluation,
    } = rules;
    lines.at(1, describe_grace(*grace_seconds));
    if let Some(seconds) = max_age_seconds {
        let most = Lifetime { seconds: *seconds };
        lines.at(1, format!("and never for longer than {most} after they were issued"));
    }
    for (issuer, number) in min_crl_number {
        lines.at(1, format!("and the revocation list of {issuer} only from number {number} on"));
    }
    for (issuer, time) in min_crl_issued {
        lines.at(1, format!("and the revocation list of {issuer} only if it was issued at {time} or later"));
    }
    if let Some(number) = min_tcb_evaluation {
        lines.at(1, format!("and Intel's statements only from tcbEvaluationDataNumber {number} on"));
    }
}

fn describe_grace(seconds: u64) -> String {
    match seconds {
        0 => "revocation lists and TCB information count until they expire".to_owned(),
        seconds => format!(
            "revocation lists and TCB information count for {} after they expired, Degraded (CollateralStale)",
            Lifetime { seconds }
        ),
    }
}

fn remaining(not_before: Timestamp, expires: Timestamp, now: Timestamp) -> String {
    let until = |time: Timestamp| Lifetime { seconds: time.unix().0.saturating_sub(now.unix().0) };
    if now < not_before {
        format!(" (not yet: it begins in {})", until(not_before))
    } else if now >= expires {
        " (EXPIRED: sidecars refuse it)".to_owned()
    } else {
        format!(" ({} left)", until(expires))
    }
}

fn describe_peer(lines: &mut Lines, name: &str, peer: &PolicyPeer) {
    let shared =
        if peer.shared_evidence { "; its evidence may also serve another Peer that says so" } else { "" };
    let choice = if peer.entries.len() > 1 { "one of the following" } else { "the following" };
    lines.at(1, format!("{name}: {choice}{shared}"));
    for entry in &peer.entries {
        entry::describe(lines, entry);
    }
}

fn describe_session(rule: &SessionRule) -> String {
    let what = match &rule.kind {
        SessionKind::Stream { senders_min: 0 } => {
            "tensor streams, which end when all senders have that the control plane lists,".to_owned()
        }
        SessionKind::Stream { senders_min } => {
            format!("tensor streams, which end when at least {senders_min} senders have,")
        }
        SessionKind::Forward { targets } => format!("TCP connections to port {}", list(targets)),
    };
    let which = match &rule.name {
        Some(name) => format!("of TransferSession {name}"),
        None => "of any TransferSession".to_owned(),
    };
    format!("{} -> {}: {what} {which}", rule.from, list(&rule.to))
}

fn describe_floors(lines: &mut Lines, floors: &Floors) {
    lines.at(
        1,
        if floors.post_quantum {
            "must use the hybrid post-quantum key exchange"
        } else {
            "MAY fall back to classical-only keys, shown as Degraded"
        },
    );
    lines.at(1, format!("is sealed with {}", list(&floors.ciphers)));
    if floors.ciphers.contains(&Cipher::Aegis256X4) {
        lines.at(2, "Aegis256X4 is a DRAFT of the CFRG, since then RFC 10032 and no standard, and no algorithm of FIPS: for those who know that they may use it");
    }
    lines.at(1, format!("is carried by {}", list(&floors.carriers)));
    if floors.congestion != Floors::default().congestion {
        lines.at(1, format!("shares paths over Udp and AfXdp by {}", list(&floors.congestion)));
    }
    match floors.root_source {
        RootSource::Injected => {}
        RootSource::File => {
            lines.at(1, "and each side has its roots from its image or manifest, not from the control plane")
        }
        RootSource::Initdata => {
            lines.at(1, "and each side has its roots from its initdata, which its evidence measures")
        }
    }
    if floors.complete {
        lines.at(1, "and no reference value may be left open");
    }
}

/// Values in full: a part of a name, an image or a key could be another's.
fn list<T: Display>(values: &BTreeSet<T>) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// Measurements and other digests that evidence states, in short.
fn short_list<T: Display>(values: &BTreeSet<T>) -> String {
    values.iter().map(shorten).collect::<Vec<_>>().join(" or ")
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn at(&mut self, depth: usize, text: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{:indent$}{text}", "", indent = 2 * depth);
    }
}
