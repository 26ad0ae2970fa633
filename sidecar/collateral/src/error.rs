//! Why a piece could not be had.

use std::io;
use std::time::Duration;

use sealane_attestation::{PieceId, Rejection};

use crate::address::InvalidAddress;

/// What a service, the way to it, or its answer was at fault for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    #[error("no service that is configured has {id}")]
    NoService { id: PieceId },
    #[error("{host} cannot be reached")]
    Unreachable {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("{host} broke off, or does not speak HTTP")]
    Broken { host: String },
    #[error("{host} did not answer in time")]
    TimedOut { host: String },
    #[error("{host} answered with status {status}")]
    Status { host: String, status: u16 },
    #[error("{host} wants to be asked less often")]
    Throttled { host: String, retry_after: Option<Duration> },
    #[error("{host} answered with a redirection, which is not followed: configure where it leads")]
    Redirected { host: String },
    #[error("{host} answered with more than any vendor does")]
    TooLarge { host: String },
    #[error("the service is asked again in {} seconds at the earliest", wait.as_secs())]
    NotYet { wait: Duration },
    #[error("the answer is refused: {0}")]
    Refused(Rejection),
    #[error("the service answered {found} to a question for {asked}")]
    Another { asked: Box<PieceId>, found: Box<PieceId> },
    #[error("{id}, as the service answered it, is over")]
    Expired { id: PieceId },
    #[error("the fetch was interrupted")]
    Interrupted,
}

impl FetchError {
    /// Whether the service is there and said something about the piece.
    pub(crate) fn is_an_answer(&self) -> bool {
        matches!(self, Self::Status { status: 400 | 404, .. })
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// How long the piece is not asked for again. What a service does not have will not be there in a second; what went
    /// wrong on the way is bounded by the pace of the service anyway.
    pub(crate) fn not_again_for(&self) -> Duration {
        match self {
            Self::NotYet { wait } => *wait,
            Self::Status { .. } | Self::Refused(_) | Self::Another { .. } | Self::Expired { .. } => {
                Duration::from_secs(60)
            }
            _ => Duration::from_secs(1),
        }
    }
}

/// What is wrong with the configuration of services.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    #[error("the authorities for services of collateral are no certificates in PEM")]
    Authorities,
    #[error(
        "this system has no authorities to verify https:// services by; name some, or ask a cache over http://"
    )]
    NoAuthorities,
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}
