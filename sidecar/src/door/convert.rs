//! From what a client says about its tensors to what sessions may rely on.

use std::sync::Arc;

use sealane_protocol::limits::{RUN_BYTES_MAX, RUN_TENSORS_MAX};
use sealane_types::{Dtype, Reason};

use super::codec::PutEntry;
use super::fault::Fault;
use super::segment::{Nothing, Segment};
use crate::handoff::{Parcel, Sequence, TensorHeader, TensorSource};

/// Checks one tensor of a `PUT`. `segment` finds the client's put segments.
pub(super) fn parcel(
    entry: PutEntry,
    segment: impl FnOnce(u32) -> Option<Arc<Segment>>,
) -> Result<Parcel, Fault> {
    let PutEntry { sequence, offset, length, segment: id, dtype, shape, run, name, assigned } = entry;
    let dtype = Dtype::from_code(dtype).ok_or(Fault::UnknownDtype(dtype))?;
    if bytes_of(dtype, &shape) != Some(length) {
        return Err(Fault::LengthMismatch(length));
    }
    let source: Arc<dyn TensorSource> = if length == 0 {
        if id != 0 || offset != 0 {
            return Err(Fault::NotZero);
        }
        Arc::new(Nothing)
    } else {
        let segment = segment(id).ok_or(Fault::UnknownSegment(id))?;
        if offset.checked_add(length).is_none_or(|end| end > segment.bytes) {
            return Err(Fault::OutOfSegment { segment: id, offset, length });
        }
        segment
    };
    let header = TensorHeader { dtype, shape, run, name };
    let tensors = header.tensors();
    let numbered = sequence.checked_add(tensors).is_some();
    let bounded = (2..=RUN_TENSORS_MAX).contains(&tensors) && (1..=RUN_BYTES_MAX).contains(&length);
    if run && !(numbered && bounded) {
        return Err(Fault::Run { tensors, length });
    }
    Ok(Parcel { sequence: Sequence(sequence), header, source, offset, length, assigned })
}

/// Length in bytes; None when it cannot be counted.
pub(super) fn bytes_of(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    // A zero anywhere makes the tensor empty, also beside dimensions whose product would overflow.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(dtype.size_bytes(), |bytes, dimension| bytes.checked_mul(*dimension))
}

/// The reason word for the developer of a client, as far as there is one.
pub(super) const fn reason(fault: &Fault) -> Reason {
    match fault {
        Fault::VersionUnsupported { .. } => Reason::VersionUnsupported,
        Fault::TooMany { .. } | Fault::TooLong { .. } | Fault::Window(_) | Fault::Rank { .. } => {
            Reason::LimitExceeded
        }
        _ => Reason::FrameMalformed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::{Budget, Side};
    use super::*;

    fn entry(dtype: u8, shape: &[u64], length: u64) -> PutEntry {
        PutEntry {
            sequence: 0,
            offset: 0,
            length,
            segment: 0,
            dtype,
            shape: shape.to_vec(),
            run: false,
            name: String::new(),
            assigned: Vec::new(),
        }
    }

    #[test]
    fn what_is_no_run_is_refused() {
        let budget = Budget::new(2 * RUN_BYTES_MAX, crate::metrics::Door::default());
        let grant = budget.grant(Side::Put, RUN_BYTES_MAX + 4096).unwrap();
        let segment = Arc::new(Segment::create(1, RUN_BYTES_MAX + 4096, grant).unwrap());
        let run = |sequence: u64, shape: &[u64], length: u64| {
            let entry = PutEntry { run: true, sequence, segment: 1, ..entry(1, shape, length) };
            parcel(entry, |_| Some(Arc::clone(&segment)))
        };
        for (sequence, shape, length) in [
            (0, &[][..], 1),
            (0, &[1, 8], 8),
            (0, &[RUN_TENSORS_MAX + 1], RUN_TENSORS_MAX + 1),
            (0, &[2, RUN_BYTES_MAX / 2 + 1], RUN_BYTES_MAX + 2),
            (u64::MAX - 2, &[3], 3),
        ] {
            let refused = run(sequence, shape, length);
            assert!(matches!(refused, Err(Fault::Run { .. })), "{shape:?}: {refused:?}");
        }
        assert!(run(u64::MAX - 3, &[3], 3).is_ok());
        assert!(run(0, &[RUN_TENSORS_MAX, RUN_BYTES_MAX / RUN_TENSORS_MAX], RUN_BYTES_MAX).is_ok());
    }

    #[test]
    fn a_length_that_the_shape_does_not_make_is_refused() {
        let none = |_| None;
        assert!(matches!(parcel(entry(11, &[2, 3], 23), none), Err(Fault::LengthMismatch(23))));
        assert!(matches!(parcel(entry(11, &[1 << 62, 4], 0), none), Err(Fault::LengthMismatch(0))));
        assert!(matches!(parcel(entry(200, &[], 1), none), Err(Fault::UnknownDtype(200))));
        assert!(matches!(parcel(entry(11, &[2, 3], 24), none), Err(Fault::UnknownSegment(0))));
        assert_eq!(parcel(entry(11, &[1 << 62, 4, 0], 0), none).unwrap().length, 0);
    }
}
