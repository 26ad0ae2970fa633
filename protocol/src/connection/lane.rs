//! How far which frame may fill the output.

use crate::frame::Frame;
use crate::record::Lane;

/// Answers have room of their own, so that they never wait behind data.
pub(super) const fn of(frame: &Frame<'_>) -> Lane {
    match frame {
        Frame::Credit(_)
        | Frame::Taken(_)
        | Frame::Ended(_)
        | Frame::Lost(_)
        | Frame::Placed { .. }
        | Frame::PipeCredit { .. }
        | Frame::PipeReset { .. } => Lane::Control,
        Frame::Open(_)
        | Frame::Tensor(_)
        | Frame::Striped(_)
        | Frame::Chunk(_)
        | Frame::End(_)
        | Frame::Abort(_)
        | Frame::PipeOpen(_)
        | Frame::PipeData { .. }
        | Frame::PipeEnd { .. } => Lane::Data,
    }
}
