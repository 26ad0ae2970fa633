//! What a sidecar and the agent of its node say to each other: one question and one answer per connection, over the
//! socket in the pod's CSI volume.
//!
//! ```text
//! question = u8 version (2) ‖ u8 what: 1 platform, 2 quote
//!            ‖ for a quote: own static (32) ‖ policy digest (32) ‖ digest of the trust configuration (32) ‖ u32 leaves ‖ root (32)
//! answer   = u32 length ‖ u8 kind ‖ rest
//!            kind 1 platform: format byte of evidence; 2 quote: lp(evidence) ‖ lp(workload); 3 not yet, 4 refused: why, UTF-8
//! ```
//!
//! A question has no room for report data: the agent composes it.

use std::io;

use sealane_attestation::limits::{EVIDENCE_BYTES_MAX, LEAVES_MAX, WORKLOAD_BYTES_MAX};
use sealane_attestation::{Evidence, Format, StatedWorkload};
use sealane_types::Digest;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const VERSION: u8 = 2;
const PLATFORM: u8 = 1;
const QUOTE: u8 = 2;
const NOT_YET: u8 = 3;
const REFUSED: u8 = 4;
/// Static key, digests of policy and trust configuration, number of leaves and root.
const QUOTE_BYTES: usize = 32 + 32 + 32 + 4 + 32;
/// Words of a refusal.
const WORDS_BYTES_MAX: usize = 512;
const ANSWER_BYTES_MAX: usize = 1 + 4 + EVIDENCE_BYTES_MAX + 4 + WORKLOAD_BYTES_MAX;

/// What a sidecar asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// What the node's evidence is.
    Platform,
    Quote(QuoteQuestion),
}

/// What the node agent cannot know by itself of the evidence that a sidecar wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuoteQuestion {
    pub(crate) own_static: [u8; 32],
    pub(crate) policy: Digest,
    pub(crate) trust: Digest,
    pub(crate) leaves: u32,
    pub(crate) tree_root: [u8; 32],
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Platform(Format),
    Quote(Box<(Evidence, StatedWorkload)>),
    /// The kubelet does not know enough about the pod yet; asking again will help.
    NotYet(String),
    Refused(String),
}

/// The other side does not keep to the protocol, or went away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(&'static str),
}

impl Question {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Platform => vec![VERSION, PLATFORM],
            Self::Quote(QuoteQuestion { own_static, policy, trust, leaves, tree_root }) => {
                let leaves = leaves.to_be_bytes();
                let head = [VERSION, QUOTE];
                let parts: [&[u8]; 6] =
                    [&head, own_static, policy.as_bytes(), trust.as_bytes(), &leaves, tree_root];
                parts.concat()
            }
        }
    }

    /// Reads exactly one question.
    ///
    /// # Errors
    /// [`MessageError`] for anything that [`Self::encode`] does not write.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, MessageError> {
        match [from.read_u8().await?, from.read_u8().await?] {
            [VERSION, PLATFORM] => return Ok(Self::Platform),
            [VERSION, QUOTE] => {}
            [VERSION, _] => return Err(MessageError::Malformed("an unknown question")),
            _ => {
                return Err(MessageError::Malformed(
                    "it is of another version than the node agent's; let both be of one release",
                ));
            }
        }
        let mut bytes = [0; QUOTE_BYTES];
        from.read_exact(&mut bytes).await?;
        let mut reader = Reader(&bytes);
        let question = (|| {
            let (own_static, policy) = (reader.array()?, Digest::new(reader.array()?));
            let trust = Digest::new(reader.array()?);
            let leaves = reader.array().map(u32::from_be_bytes)?;
            Some(QuoteQuestion { own_static, policy, trust, leaves, tree_root: reader.array()? })
        })();
        let known = question.filter(|question| (1..=LEAVES_MAX).contains(&question.leaves));
        known.map(Self::Quote).ok_or(MessageError::Malformed("a number of leaves that no tree has"))
    }
}

impl Answer {
    /// # Errors
    /// [`MessageError::Malformed`] for evidence that is larger than any verifier accepts.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let body = match self {
            Self::Platform(format) => vec![PLATFORM, *format as u8],
            Self::Quote(quote) => {
                let (evidence, workload) = quote.as_ref();
                let too_large =
                    |_| MessageError::Malformed("the evidence is larger than any verifier accepts");
                let mut body = vec![QUOTE];
                for part in [evidence.encode().map_err(too_large)?, workload.encode()] {
                    body.extend_from_slice(&length(&part));
                    body.extend_from_slice(&part);
                }
                body
            }
            Self::NotYet(words) => worded(NOT_YET, words),
            Self::Refused(words) => worded(REFUSED, words),
        };
        Ok([&length(&body)[..], &body].concat())
    }

    /// Reads exactly one answer.
    ///
    /// # Errors
    /// [`MessageError`] for anything that [`Self::encode`] does not write.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, MessageError> {
        const TOO_LONG: MessageError = MessageError::Malformed("an answer longer than any");
        let length = usize::try_from(from.read_u32().await?).map_err(|_| TOO_LONG)?;
        if length > ANSWER_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).await?;
        Self::parse(&body).ok_or(MessageError::Malformed("an answer that cannot be read"))
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        match *kind {
            PLATFORM => {
                let [byte] = rest else { return None };
                Format::ALL.iter().find(|format| **format as u8 == *byte).copied().map(Self::Platform)
            }
            QUOTE => {
                let mut reader = Reader(rest);
                let evidence = Evidence::decode(reader.prefixed()?).ok()?;
                let workload = StatedWorkload::decode(reader.prefixed()?).ok()?;
                reader.0.is_empty().then(|| Self::Quote(Box::new((evidence, workload))))
            }
            NOT_YET => words(rest).map(Self::NotYet),
            REFUSED => words(rest).map(Self::Refused),
            _ => None,
        }
    }
}

/// Sends `message` whole.
///
/// # Errors
/// The connection failed.
pub(crate) async fn send(to: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> Result<(), MessageError> {
    to.write_all(message).await?;
    Ok(to.flush().await?)
}

fn worded(kind: u8, words: &str) -> Vec<u8> {
    let end = (0..=words.len().min(WORDS_BYTES_MAX)).rev().find(|end| words.is_char_boundary(*end));
    let words = words.get(..end.unwrap_or(0)).unwrap_or_default();
    [&[kind], words.as_bytes()].concat()
}

/// Words for a log: nothing in them moves a cursor.
fn words(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= WORDS_BYTES_MAX)?;
    Some(text.chars().filter(|letter| !letter.is_control()).collect())
}

/// Everything that is written is bounded far below 4 GiB.
fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn prefixed(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_be_bytes(self.array()?)).ok()?;
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        let (policy, trust) = (Digest::new([2; 32]), Digest::new([5; 32]));
        Question::Quote(QuoteQuestion { own_static: [1; 32], policy, trust, leaves: 3, tree_root: [4; 32] })
    }

    fn answers() -> [Answer; 4] {
        let evidence = Evidence { format: Format::Tdx, report: vec![7; 64], certificates: vec![vec![1]] };
        let images = [("sealane".to_owned(), Digest::new([6; 32]))];
        let workload = StatedWorkload::new("embedder".to_owned(), images.into()).unwrap();
        [
            Answer::Platform(Format::SevSnp),
            Answer::Quote(Box::new((evidence, workload))),
            Answer::NotYet("container `app` has not started".to_owned()),
            Answer::Refused("no".to_owned()),
        ]
    }

    #[tokio::test]
    async fn what_is_written_reads_back() {
        for question in [Question::Platform, question()] {
            assert_eq!(Question::read(&mut &question.encode()[..]).await.unwrap(), question);
        }
        for answer in answers() {
            assert_eq!(Answer::read(&mut &answer.encode().unwrap()[..]).await.unwrap(), answer);
        }
    }

    #[tokio::test]
    async fn questions_have_no_room_for_report_data() {
        let bytes = question().encode();
        assert_eq!(bytes.len(), 2 + QUOTE_BYTES);
        for length in 0..bytes.len() {
            assert!(Question::read(&mut &bytes[..length]).await.is_err(), "{length}");
        }
        for (place, byte) in [(0, 1), (1, 3), (2 + 96, 1)] {
            let mut other = bytes.clone();
            other[place] = byte;
            assert!(Question::read(&mut &other[..]).await.is_err(), "{place}");
        }
        let mut none = bytes;
        none[2 + 96..2 + 100].fill(0);
        assert!(Question::read(&mut &none[..]).await.is_err(), "no leaves");
    }

    #[tokio::test]
    async fn answers_are_bounded_and_exact() {
        for answer in answers() {
            let bytes = answer.encode().unwrap();
            for length in 0..bytes.len() {
                assert!(Answer::read(&mut &bytes[..length]).await.is_err(), "{length}");
            }
        }
        let framed = |body: &[u8]| [&length(body)[..], body].concat();
        for body in [&[][..], &[9], &[PLATFORM], &[PLATFORM, 0], &[PLATFORM, 1, 1], &[REFUSED, 0xff]] {
            assert!(Answer::read(&mut &framed(body)[..]).await.is_err(), "{body:?}");
        }
        let endless = [0xff_u8; 64];
        let refused = Answer::read(&mut &endless[..]).await;
        assert!(
            matches!(refused, Err(MessageError::Malformed(_))),
            "before anything is allocated: {refused:?}"
        );
    }

    proptest::proptest! {
        #[test]
        fn what_is_accepted_encodes_to_the_same_bytes(
            kind in 0_u8..6,
            rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        ) {
            let body = [&[kind][..], &rest].concat();
            if let Some(answer @ (Answer::Platform(_) | Answer::Quote(_))) = Answer::parse(&body) {
                proptest::prop_assert_eq!(answer.encode().unwrap(), [&length(&body)[..], &body].concat());
            }
        }
    }

    #[tokio::test]
    async fn refusals_are_short_and_move_no_cursor() {
        let long = Answer::Refused(format!("\u{1b}[2J{}ä", "x".repeat(WORDS_BYTES_MAX)));
        let Answer::Refused(words) = Answer::read(&mut &long.encode().unwrap()[..]).await.unwrap() else {
            panic!("a refusal");
        };
        assert!(words.len() < WORDS_BYTES_MAX && words.starts_with("[2Jx"), "{words}");
    }
}
