//! What the author of a draft has to do next.

use sealane_policy::{Document, advice, lint};

use super::before::Before;
use crate::output;

/// What the author has to do next.
pub(super) fn advise(document: &Document, before: Option<&Before>) {
    let Document { namespace, name, epoch, authorities, peers, sessions, expires, .. } = document;
    output::say(&format!(
        "Drafted epoch {epoch} of {namespace}/{name}: {}, {}, {} of {} owners must sign, expires {expires}.",
        count(peers.len(), "Peer"),
        count(sessions.len(), "session"),
        authorities.threshold,
        authorities.keys.len(),
    ));
    if before.is_some_and(|before| before.authorities != *authorities) {
        output::say("The owners change: the old quorum and the new one must both sign.");
    }
    if before.is_some_and(|before| before.rotated || before.authorities != *authorities) {
        output::say(&format!(
            "The manifest must keep roots and rotations:\n  kubectl get trustpolicy {name} -n {namespace} -o yaml > current.yaml\n  kubectl sealane policy manifest --roots current.yaml DRAFT",
        ));
    }
    let findings = lint(document);
    if !findings.is_empty() {
        output::say(
            "To be filled in or corrected before it can be signed (--pretty makes it easier to edit):",
        );
        for finding in findings {
            output::say(&format!("  - {finding}"));
        }
    }
    for advice in advice(document) {
        output::say(&format!("note: {advice}"));
    }
    output::say(
        "Next: read it, then every owner signs it:\n  kubectl sealane policy show DRAFT\n  kubectl sealane policy sign --key FILE DRAFT",
    );
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
