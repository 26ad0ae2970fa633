//! What became of an answer that was taken away.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The first test that failed, and how many did.
    Noticed(Option<String>, usize),
    Missed,
    /// A test that waits for ever tells nobody what is wrong.
    Hung,
    /// The list or the edit is wrong: the answer is elsewhere, or nothing compiles without it.
    NotEdited(String),
    /// With the answer in place.
    NoTest,
    FailsAnyway(String),
}

impl Outcome {
    pub(super) const fn is_noticed(&self) -> bool {
        matches!(self, Self::Noticed(..))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed(Some(test), 0 | 1) => write!(f, "noticed by {test}"),
            Self::Noticed(Some(test), failed) => write!(f, "noticed by {test} and {} more", failed - 1),
            Self::Noticed(None, _) => f.write_str("noticed: the tests ended before their time"),
            Self::Missed => f.write_str("NO TEST MISSES IT"),
            Self::Hung => f.write_str("ITS TESTS NEVER END"),
            Self::NotEdited(error) => write!(f, "THE EDIT CANNOT BE MADE: {error}"),
            Self::NoTest => f.write_str("THERE IS NO SUCH TEST"),
            Self::FailsAnyway(test) => write!(f, "{test} FAILS WITH THE ANSWER IN PLACE"),
        }
    }
}
