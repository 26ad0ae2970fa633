//! A fault as every gRPC client can read it: code, sentence, and the reason word where programs find it.

use std::collections::HashMap;

use tonic::Status;
use tonic::metadata::MetadataValue;
use tonic_types::{ErrorDetails, StatusExt};

use super::fault::Fault;
use super::remedy;

/// Who gives reason words their meaning.
const DOMAIN: &str = "sealane.dev";
/// The trailer that carries the reason word, for clients that do not unpack details.
const TRAILER: &str = "sealane-reason";

pub(super) fn of(fault: &Fault) -> Status {
    // What comes from below and has a reason already keeps it.
    if let Fault::Transport(status) = fault
        && status.metadata().contains_key(TRAILER)
    {
        return status.as_ref().clone();
    }
    let code = match fault {
        Fault::Transport(status) => status.code(),
        fault => fault.code(),
    };
    let reason = fault.reason();
    let more = HashMap::from([("remedy".to_owned(), remedy::of(reason))]);
    let details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, more);
    let mut status = Status::with_error_details(code, fault.to_string(), details);
    status.metadata_mut().insert(TRAILER, MetadataValue::from_static(reason.as_str()));
    status
}

#[cfg(test)]
mod tests {
    use sealane_types::Reason;
    use tonic::Code;

    use super::*;
    use crate::handoff::LaneError;

    #[test]
    fn a_refusal_carries_its_word_twice_and_a_remedy() {
        let fault = Fault::Lane(LaneError::refused(Reason::TcbTooLow, "the TCB of ranker-0 is too low"));
        let status = of(&fault);
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(status.message(), "the TCB of ranker-0 is too low");
        assert_eq!(status.metadata().get(TRAILER).unwrap(), "TcbTooLow");
        let info = status.get_details_error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("TcbTooLow", DOMAIN));
        assert!(info.metadata["remedy"].contains("firmware"), "{info:?}");
    }

    #[test]
    fn a_status_of_ours_that_comes_from_below_stays_as_it_is() {
        let below = of(&Fault::NoMemory { bytes: 7 });
        let status = of(&Fault::from(below.clone()));
        assert_eq!((status.code(), status.message()), (below.code(), below.message()));
        let stranger = of(&Fault::from(Status::out_of_range("too long")));
        assert_eq!(stranger.code(), Code::OutOfRange);
        assert_eq!(stranger.metadata().get(TRAILER).unwrap(), "FrameMalformed");
    }
}
