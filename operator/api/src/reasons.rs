//! Reasons: the words that the operator adds to those of the data plane, and what every word means.
//!
//! `docs/reasons.md` is the one table of causes and remedies; it is part of the program, so that what is printed and
//! what is documented cannot differ. A test demands a section for every word.

use std::borrow::Cow;

macro_rules! words {
    ($($name:ident = $word:literal),+ $(,)?) => {
        /// Reasons of conditions that are no reasons of the data plane.
        pub mod word {
            $(pub const $name: &str = $word;)+

            /// Every word above.
            pub const ALL: &[&str] = &[$($name),+];
        }
    };
}

words! {
    CONFLICT = "Conflict",
    SELECTOR_INVALID = "SelectorInvalid",
    SPEC_INVALID = "SpecInvalid",
    POLICY_EXPIRING = "PolicyExpiring",
    EPOCH_BEHIND = "EpochBehind",
    SIMULATED_EVIDENCE = "SimulatedEvidence",
    CLASSICAL_KEYS = "ClassicalKeys",
    SOME_UNCONNECTED = "SomeUnconnected",
    NOT_ATTACHED = "NotAttached",
    NOT_REPORTED = "NotReported",
    ALL_READY = "AllReady",
    ALL_VERIFIED = "AllVerified",
    ALL_FRESH = "AllFresh",
    ALL_UP_TO_DATE = "AllUpToDate",
    AS_DECLARED = "AsDeclared",
    ATTESTED = "Attested",
    CONNECTED = "Connected",
    CONNECTING = "Connecting",
    SENDERS_SUCCEEDED = "SendersSucceeded",
    SENDERS_ACTIVE = "SendersActive",
    SENDERS_FAILED = "SendersFailed",
    VERIFIED = "Verified",
    IN_FORCE = "InForce",
    COMPLETE = "Complete",
    NOT_CONNECTED = "NotConnected",
    NOT_APPLICABLE = "NotApplicable",
    ON_SCHEDULE = "OnSchedule",
    ONCE = "Once",
    SUSPENDED = "Suspended",
    SCHEDULE_INVALID = "ScheduleInvalid",
    NAMESPACE_NOT_ENABLED = "NamespaceNotEnabled",
    NO_NODES = "NoNodes",
    POOL_EMPTY = "PoolEmpty",
    POOL_UNUSABLE = "PoolUnusable",
    MEASURING = "Measuring",
    NO_RUN = "NoRun",
    RUN_SUCCEEDED = "RunSucceeded",
    RUN_FAILED = "RunFailed",
    WORSE = "Worse",
    NOT_WORSE = "NotWorse",
    NOT_COMPARED = "NotCompared",
    RECOMMENDED = "Recommended",
    NOT_MEASURED = "NotMeasured",
    FIGURES_NOISY = "FiguresNoisy",
    FIGURES_IMPLAUSIBLE = "FiguresImplausible",
    FIGURES_STALE = "FiguresStale",
    NOT_FOLLOWED = "NotFollowed",
    UNREADABLE = "Unreadable",
}

/// The page that people read.
const PAGE: &str = include_str!("../../../docs/reasons.md");
const REMEDY: &str = "**Remedy:**";

/// What a word means and what to do about it, as one line of text each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub word: &'static str,
    pub cause: Cow<'static, str>,
    pub remedy: Cow<'static, str>,
}

/// The explanation of `word`, in any case; `None` for a word that no release says.
#[must_use]
pub fn explain(word: &str) -> Option<Explanation> {
    explanations().find(|known| known.word.eq_ignore_ascii_case(word))
}

/// Every word with its explanation, in the order of the page.
pub fn explanations() -> impl Iterator<Item = Explanation> {
    PAGE.split("\n### ").skip(1).filter_map(|section| {
        let (word, body) = section.split_once('\n')?;
        // A section ends where the next part of the page begins.
        let body = body.split("\n## ").next()?;
        let (cause, remedy) = body.split_once(REMEDY)?;
        Some(Explanation { word: word.trim(), cause: one_line(cause), remedy: one_line(remedy) })
    })
}

/// Where a person reads about `word`, relative to the root of the project.
#[must_use]
pub fn page(word: &str) -> String {
    format!("docs/reasons.md#{}", word.to_ascii_lowercase())
}

fn one_line(text: &'static str) -> Cow<'static, str> {
    let text = text.trim();
    if text.contains('\n') {
        text.split_whitespace().collect::<Vec<_>>().join(" ").into()
    } else {
        text.into()
    }
}
