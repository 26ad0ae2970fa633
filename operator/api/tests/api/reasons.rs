//! Every word that somebody may meet has a section with cause and remedy, and no section is about a word of the past.

use std::collections::BTreeSet;

use sealane_operator_api::{explain, explanations, word};
use sealane_types::{Reason, TcbStatus};

fn words() -> BTreeSet<&'static str> {
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    let statuses = TcbStatus::ALL.iter().map(|status| status.as_str());
    reasons.chain(statuses).chain(word::ALL.iter().copied()).collect()
}

#[test]
fn every_word_has_a_cause_and_a_remedy() {
    for word in words() {
        let found = explain(word).unwrap_or_else(|| panic!("docs/reasons.md has no section `{word}`"));
        assert!(found.cause.len() > 10 && found.remedy.len() > 10, "{found:?}");
        assert!(found.cause.ends_with('.') && found.remedy.ends_with('.'), "{found:?}");
        assert!(
            !found.cause.contains('#') && !found.remedy.contains("##"),
            "the next section leaks: {found:?}"
        );
    }
}

#[test]
fn no_section_is_about_a_word_that_nobody_says() {
    let explained: Vec<_> = explanations().map(|explanation| explanation.word).collect();
    let unique: BTreeSet<_> = explained.iter().copied().collect();
    assert_eq!(explained.len(), unique.len(), "a word has two sections");
    assert_eq!(unique, words());
}

#[test]
fn words_are_found_as_people_type_them() {
    assert_eq!(explain("policyexpired").unwrap().word, "PolicyExpired");
    assert_eq!(explain("NoSuchWord"), None);
    assert_eq!(sealane_operator_api::page("PolicyExpired"), "docs/reasons.md#policyexpired");
}
