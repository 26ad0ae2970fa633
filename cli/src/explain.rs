//! `kubectl sealane explain`.

use anyhow::{Result, bail};
use sealane_operator_api::{Explanation, explain, explanations, page};

use crate::nearest::suggestion;
use crate::output::{self, Format};

/// What a reason word means and what to do about it; without a word, all of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A reason as conditions, events, logs and exceptions show it, for example PolicyExpired.
    #[arg(value_name = "REASON")]
    reason: Option<String>,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let found: Vec<Explanation> = match &arguments.reason {
        None => explanations().collect(),
        Some(word) => explain(word).into_iter().collect(),
    };
    if let (Some(word), []) = (&arguments.reason, found.as_slice()) {
        let near = suggestion(word, explanations().map(|explanation| explanation.word));
        bail!(
            "`{word}` is no reason that this release knows{near}; without a word, `kubectl sealane explain` lists them"
        );
    }
    match arguments.output {
        Format::Text => output::print(&found.iter().map(text).collect::<Vec<_>>().join("\n")),
        Format::Json => output::print_json(&found.iter().map(value).collect::<Vec<_>>()),
    }
}

fn text(explanation: &Explanation) -> String {
    let Explanation { word, cause, remedy } = explanation;
    let remedy = remedy.replace(OF_A_PEER, "\n  -> of a Peer:");
    format!("{word}\n  {cause}\n  -> {remedy}\n")
}

fn value(explanation: &Explanation) -> serde_json::Value {
    let Explanation { word, cause, remedy } = explanation;
    serde_json::json!({"reason": word, "cause": cause, "remedy": remedy, "page": page(word)})
}

/// In a section: what is to be done where a Peer says the word.
const OF_A_PEER: &str = "**Of a Peer:**";

/// What to do about `reason`.
pub(crate) fn remedy(reason: &str) -> String {
    parts(reason).map_or_else(|| unknown(reason), |(general, _)| general)
}

/// What to do about `reason` where a Peer states it, of which other objects may say something else.
pub(crate) fn peer_remedy(reason: &str) -> String {
    parts(reason).map_or_else(|| unknown(reason), |(general, of_peer)| of_peer.unwrap_or(general))
}

/// What to do about a degradation: its message lists all words that hold, of which `reason` is only the first.
pub(crate) fn remedies(reason: &str, message: &str) -> String {
    let listed = message.split_once('(').and_then(|(_, rest)| Some(rest.split_once(')')?.0));
    let listed = listed.into_iter().flat_map(|words| words.split('+')).filter(|word| explain(word).is_some());
    let mut words: Vec<&str> = Vec::new();
    for word in std::iter::once(reason).chain(listed) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    match words.as_slice() {
        [_] => remedy(reason),
        words => words.iter().map(|word| format!("{word}: {}", remedy(word))).collect::<Vec<_>>().join(" "),
    }
}

fn parts(reason: &str) -> Option<(String, Option<String>)> {
    let Explanation { remedy, .. } = explain(reason)?;
    Some(match remedy.split_once(OF_A_PEER) {
        Some((general, of_peer)) => (general.trim().to_owned(), Some(of_peer.trim().to_owned())),
        None => (remedy.into_owned(), None),
    })
}

fn unknown(reason: &str) -> String {
    format!("`{reason}` is no reason that this release knows: read the message, and update kubectl-sealane")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_is_at_hand() {
        assert!(remedy("PolicyExpired").contains("next epoch"));
        assert!(remedy("Brand New").contains("Brand New"));
        assert!(text(&explain("NoReplicas").unwrap()).starts_with("NoReplicas\n  "));
        assert_eq!(value(&explain("NoReplicas").unwrap())["page"], "docs/reasons.md#noreplicas");
    }

    #[test]
    fn a_peer_without_pods_is_not_told_to_start_another() {
        let of_peer = peer_remedy("NoReplicas");
        assert!(of_peer.contains("FailedCreate") && !of_peer.contains("other side"), "{of_peer}");
        let remedy_of_any = remedy("NoReplicas");
        assert!(remedy_of_any.contains("for a session or a lane") && !remedy_of_any.contains("**"));
        let text = text(&explain("NoReplicas").unwrap());
        assert!(text.contains("-> of a Peer: ") && !text.contains("**"), "{text}");
        assert_eq!(peer_remedy("PolicyExpired"), remedy("PolicyExpired"));
        assert!(peer_remedy("Brand New").contains("Brand New"));
    }

    #[test]
    fn each_degradation_has_its_own_remedy() {
        let both = remedies(
            "SimulatedEvidence",
            "1 of 2 replicas (SimulatedEvidence+CpuThrottled), among them pod `a`",
        );
        assert!(both.contains(&format!("CpuThrottled: {}", remedy("CpuThrottled"))), "{both}");
        assert!(both.starts_with(&format!("SimulatedEvidence: {}", remedy("SimulatedEvidence"))), "{both}");
        let one = remedies("SimulatedEvidence", "1 of 2 replicas (SimulatedEvidence), among them pod `a`");
        assert_eq!(one, remedy("SimulatedEvidence"));
        assert_eq!(remedies("Stalled", "no receiver takes (for 15 s)"), remedy("Stalled"));
    }

    /// Exceptions of the client carry words that no sidecar says.
    #[test]
    fn every_word_of_the_python_client_is_explained() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/python/src/sealane");
        let mut words = std::collections::BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            // What it exports are names, not words.
            if path.extension().is_none_or(|extension| extension != "py") || path.ends_with("__init__.py") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            words
                .extend(text.split('"').skip(1).step_by(2).filter(|word| is_reason(word)).map(str::to_owned));
        }
        assert!(words.contains("DoorUnreachable") && words.contains("UsedAfterFork"), "{words:?}");
        let unknown: Vec<_> = words.iter().filter(|word| explain(word).is_none()).collect();
        assert!(unknown.is_empty(), "docs/reasons.md has no section for {unknown:?}");
    }

    /// Two words or more in CamelCase.
    fn is_reason(text: &str) -> bool {
        let capitals = text.chars().filter(char::is_ascii_uppercase).count();
        let letters = text.chars().all(|letter| letter.is_ascii_alphabetic());
        letters
            && capitals >= 2
            && capitals < text.len() / 2
            && text.starts_with(|first: char| first.is_ascii_uppercase())
    }
}
