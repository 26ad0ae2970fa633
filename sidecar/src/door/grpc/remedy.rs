//! What usually helps, from the page that people read: there is one text for each word.

use sealane_types::Reason;

const PAGE: &str = include_str!("../../../../docs/reasons.md");

/// The remedy of `docs/reasons.md` in one line; empty where it has none.
pub(super) fn of(reason: Reason) -> String {
    section(reason.as_str()).and_then(remedy).unwrap_or_default()
}

/// What stands below the heading of a word, up to the next heading.
fn section(word: &str) -> Option<&'static str> {
    PAGE.split("\n### ").find_map(|section| section.strip_prefix(word)?.strip_prefix('\n'))
}

/// The paragraph that begins with `**Remedy:**`.
fn remedy(section: &str) -> Option<String> {
    let (_, after) = section.split_once("**Remedy:**")?;
    let paragraph = after.split("\n\n").next()?;
    Some(paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_remedy() {
        for reason in Reason::ALL {
            assert!(!of(*reason).is_empty(), "docs/reasons.md has no remedy for {reason}");
        }
        let expired = "Sign and apply the next epoch (`kubectl sealane policy init` drafts it).";
        assert_eq!(of(Reason::PolicyExpired), expired);
    }
}
