//! What is wrong, and what was counted.

use std::fmt;

/// A tensor, as its sender numbers it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tensor {
    pub pod: String,
    pub run: String,
    pub index: u64,
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor {} of {} ({})", self.index, self.pod, self.run)
    }
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Applications of one Peer (or of one replica of a broadcast) took it more than once.
    Twice { tensor: Tensor, takers: Vec<String> },
    /// Bytes, number or sender differ from what was put.
    Corrupted { tensor: Tensor, taker: String, what: &'static str },
    /// Its sender was told that it was taken, and nobody of `peer` took it.
    Lost { tensor: Tensor, sequence: u64, peer: String },
    /// It was taken, and its sender never put it or was told that it was not accepted.
    Ghost { tensor: Tensor, taker: String },
    /// It was numbered, and its sender was told nothing about it although it went on to the end.
    Unsettled { tensor: Tensor, sequence: u64 },
    /// Numbers of one lane grow by one.
    Misnumbered { tensor: Tensor, sequence: u64 },
    /// `Uncertain` where every receiver lived, or about a tensor that was confirmed or is unknown.
    WronglyUncertain { tensor: Option<Tensor>, pod: String, sequence: u64, why: &'static str },
    /// A receiver was told of an interruption more or less often than there were.
    Interruptions { receiver: String, sender: String, told: usize, least: usize, most: usize },
    /// A receiver got a sender's tensors in another order.
    Disordered { tensor: Tensor, taker: String, after: u64, sequence: u64 },
    /// A process is not done.
    Unfinished { pod: String, run: String },
    /// A process failed with an error that the test does not expect.
    Failed { pod: String, run: String, error: String },
    /// A tensor was refused although nothing was slow.
    Refused { tensor: Tensor, reason: String },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { tensor, takers } => write!(f, "{tensor} was taken twice: {}", takers.join(", ")),
            Self::Corrupted { tensor, taker, what } => write!(f, "{taker} took {tensor} with another {what}"),
            Self::Lost { tensor, sequence, peer } => {
                write!(f, "{tensor}, sequence {sequence}, was confirmed, and {peer} did not take it")
            }
            Self::Ghost { tensor, taker } => write!(f, "{taker} took {tensor}, which was not put"),
            Self::Unsettled { tensor, sequence } => {
                write!(f, "{tensor}, sequence {sequence}: its sender was never told what became of it")
            }
            Self::Misnumbered { tensor, sequence } => write!(f, "{tensor} got sequence {sequence}"),
            Self::WronglyUncertain { tensor, pod, sequence, why } => match tensor {
                Some(tensor) => write!(f, "{tensor}, sequence {sequence}, is said to be uncertain: {why}"),
                None => write!(f, "sequence {sequence} of {pod} is said to be uncertain: {why}"),
            },
            Self::Interruptions { receiver, sender, told, least, most } => {
                write!(f, "{receiver} heard of {told} interruptions of {sender}, not of {least} to {most}")
            }
            Self::Disordered { tensor, taker, after, sequence } => {
                write!(f, "{taker} took {tensor}, sequence {sequence}, after sequence {after}")
            }
            Self::Unfinished { pod, run } => write!(f, "{pod} ({run}) is not done"),
            Self::Failed { pod, run, error } => write!(f, "{pod} ({run}) failed: {error}"),
            Self::Refused { tensor, reason } => write!(f, "{tensor} was refused: {reason}"),
        }
    }
}

/// What the ledgers add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    pub numbered: usize,
    pub confirmed: usize,
    pub uncertain: usize,
    /// Uncertain ones that somebody took.
    pub uncertain_taken: usize,
    /// Numbered ones of dead senders, which nobody was told about.
    pub untold: usize,
    /// Takings, counted per receiver.
    pub taken: usize,
    pub interruptions: usize,
    pub dead: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { numbered, confirmed, uncertain, uncertain_taken, untold, taken, interruptions, dead } =
            self;
        write!(
            f,
            "{numbered} tensors numbered: {confirmed} confirmed, {uncertain} uncertain ({uncertain_taken} of them \
             taken), {untold} of senders that died; {taken} taken, {interruptions} interruptions told, {dead} \
             processes died"
        )
    }
}

/// The ledgers' verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    pub figures: Figures,
    pub findings: Vec<Finding>,
}
