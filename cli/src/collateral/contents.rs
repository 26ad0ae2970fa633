//! What a bundle holds, for people and for programs.

use sealane_attestation::bundle::Bundle;
use sealane_attestation::{VendorRoots, VerifiedPiece};
use sealane_policy::Timestamp;
use sealane_types::KeyId;
use serde::Serialize;

use crate::lifetime::Lifetime;
use crate::output::table;

/// A bundle whose pieces were verified, each by itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contents {
    issued: String,
    signers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tcb_evaluation: Option<u32>,
    /// When the first piece is over; none for an empty bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    pieces: Vec<Line>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcb_evaluation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crl_number: Option<u64>,
    /// `Fresh`, `Expired`, `NotYetValid` or `Refused`.
    state: &'static str,
    /// Why a piece is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// For the text: how long it is valid yet.
    #[serde(skip)]
    left: Option<Lifetime>,
}

impl Contents {
    pub(super) fn of(bundle: &Bundle, signers: &[KeyId], now: Timestamp) -> Self {
        let roots = VendorRoots::pinned();
        let verified = bundle.pieces.iter().map(|piece| roots.verify(piece.clone(), now.unix()));
        let mut ends = Vec::new();
        let pieces = verified
            .map(|verified| match verified {
                Ok(piece) => {
                    ends.push(piece.term().until);
                    Line::of(&piece, now)
                }
                Err(rejection) => Line::refused(rejection.to_string()),
            })
            .collect();
        Self {
            issued: Timestamp::from(bundle.issued).to_string(),
            signers: signers.iter().map(ToString::to_string).collect(),
            min_tcb_evaluation: bundle.min_tcb_evaluation,
            expires: ends.into_iter().min().map(|end| Timestamp::from(end).to_string()),
            pieces,
        }
    }

    /// Whether every piece may be used now.
    pub(super) fn is_fresh(&self) -> bool {
        self.pieces.iter().all(|piece| piece.state == "Fresh")
    }

    pub(super) fn describe(&self) -> String {
        let Self { issued, signers, min_tcb_evaluation, expires, pieces } = self;
        let mut text = format!("Bundle of collateral, issued at {issued}\n");
        let signed = if signers.is_empty() { "nobody".to_owned() } else { signers.join(", ") };
        text.push_str(&format!("  says it is signed by {signed}\n"));
        if let Some(least) = min_tcb_evaluation {
            text.push_str(&format!(
                "  statements of Intel's below tcbEvaluationDataNumber {least} are not taken\n"
            ));
        }
        if let Some(expires) = expires {
            text.push_str(&format!("  the first piece is over at {expires}\n"));
        }
        let heading = ["PIECE", "ISSUED", "VALID UNTIL", "NUMBER", "STATE"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(heading).chain(pieces.iter().map(Line::row)).collect();
        format!("{text}\n{}", table(&rows))
    }
}

impl Line {
    fn of(piece: &VerifiedPiece, now: Timestamp) -> Self {
        let [from, until] = [piece.term().from, piece.term().until].map(Timestamp::from);
        let state = match now {
            now if now < from => "NotYetValid",
            now if now >= until => "Expired",
            _ => "Fresh",
        };
        let left = until.unix().0.checked_sub(now.unix().0).filter(|left| *left > 0 && state == "Fresh");
        Self {
            what: piece.id().to_string(),
            from: Some(from.to_string()),
            until: Some(until.to_string()),
            tcb_evaluation: piece.evaluation(),
            crl_number: piece.crl_number(),
            state,
            problem: None,
            left: left.map(|seconds| Lifetime { seconds }),
        }
    }

    fn refused(problem: String) -> Self {
        Self {
            what: "a piece that no vendor signed as it is".to_owned(),
            from: None,
            until: None,
            tcb_evaluation: None,
            crl_number: None,
            state: "Refused",
            problem: Some(problem),
            left: None,
        }
    }

    fn row(&self) -> Vec<String> {
        let state = match (&self.left, &self.problem) {
            (Some(left), _) => format!("valid for {left}"),
            (None, Some(problem)) => format!("REFUSED: {problem}"),
            (None, None) if self.state == "Expired" => "EXPIRED".to_owned(),
            (None, None) => "not valid yet".to_owned(),
        };
        let number = self.tcb_evaluation.map(u64::from).or(self.crl_number).map(|number| number.to_string());
        let or_nothing = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.what.clone(),
            or_nothing(&self.from),
            or_nothing(&self.until),
            number.unwrap_or_default(),
            state,
        ]
    }
}
