//! `kubectl sealane explain`.

use anyhow::{Result, bail};
use sealane_operator_api::{Explanation, explain, explanations, page};

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
        bail!(
            "`{word}` is no reason that this release knows; without a word, `kubectl sealane explain` lists them"
        );
    }
    match arguments.output {
        Format::Text => output::print(&found.iter().map(text).collect::<Vec<_>>().join("\n")),
        Format::Json => output::print_json(&found.iter().map(value).collect::<Vec<_>>()),
    }
}

fn text(explanation: &Explanation) -> String {
    let Explanation { word, cause, remedy } = explanation;
    format!("{word}\n  {cause}\n  -> {remedy}\n")
}

fn value(explanation: &Explanation) -> serde_json::Value {
    let Explanation { word, cause, remedy } = explanation;
    serde_json::json!({"reason": word, "cause": cause, "remedy": remedy, "page": page(word)})
}

/// What to do about `reason`.
pub(crate) fn remedy(reason: &str) -> String {
    match explain(reason) {
        Some(Explanation { remedy, .. }) => remedy.into_owned(),
        None => format!(
            "`{reason}` is no reason that this release knows: read the message, and update kubectl-sealane"
        ),
    }
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
}
