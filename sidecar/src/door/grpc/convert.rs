//! Between `door.proto` and the door's own words. What clients say is checked here, before anything is set aside for it.

use std::time::Duration;

use sealane_sidecar_api::door as wire;
use sealane_types::{Dtype, SessionName};

use super::fault::Fault;
use super::{limits, put, remedy, take};
use crate::desired::Direction;
use crate::door::limits::{OPEN_WAIT_MAX, REPLICAS_MAX};
use crate::handoff::{
    DIMENSIONS_MAX, Delivery, DeliveryId, LaneFailure, LaneIncarnation, ReplicaId, Sequence, SessionKind,
    SessionView, TENSOR_NAME_BYTES_MAX, TensorHeader,
};

// ---- from clients ----------------------------------------------------------------------------------------------

pub(super) fn put_ask(request: wire::PutRequest) -> Result<put::Ask, Fault> {
    use wire::put_request::Message;
    Ok(match request.message.ok_or(Fault::Empty)? {
        Message::Open(open) => put::Ask::Open(put::Open {
            session: session_name(open.session)?,
            timeout: wait(open.timeout_ms),
            incarnation: if open.incarnation.is_empty() {
                None
            } else {
                Some(incarnation(&open.incarnation)?)
            },
            base: Sequence(open.base),
            resumable: open.resumable,
        }),
        Message::Tensor(tensor) => {
            let header = header(tensor.dtype, tensor.shape, tensor.name)?;
            within("replicas", tensor.replicas.len(), REPLICAS_MAX)?;
            let replica = |bytes: &bytes::Bytes| {
                <[u8; 16]>::try_from(&bytes[..]).map(ReplicaId).map_err(|_| Fault::Replica(bytes.len()))
            };
            let assigned = tensor.replicas.iter().map(replica).collect::<Result<_, _>>()?;
            let sequence = tensor.sequence.map(Sequence);
            put::Ask::Tensor { sequence, header, assigned, data: tensor.data }
        }
        Message::Chunk(chunk) => put::Ask::Chunk { offset: chunk.offset, data: chunk.data },
        Message::Flush(flush) => put::Ask::Flush(flush.id),
        Message::Close(wire::Close {}) => put::Ask::Close,
    })
}

pub(super) fn take_ask(request: wire::TakeRequest) -> Result<take::Ask, Fault> {
    use wire::take_request::Message;
    Ok(match request.message.ok_or(Fault::Empty)? {
        Message::Open(open) => {
            let unknown = |_| Fault::UnknownAcknowledge(open.acknowledge);
            let acknowledge = wire::Acknowledge::try_from(open.acknowledge).map_err(unknown)?;
            take::Ask::Open(take::Open {
                session: session_name(open.session)?,
                timeout: wait(open.timeout_ms),
                automatic: acknowledge == wire::Acknowledge::Automatic,
            })
        }
        Message::Taken(taken) => take::Ask::Taken(taken.deliveries.into_iter().map(DeliveryId).collect()),
    })
}

pub(super) fn incarnation(bytes: &[u8]) -> Result<LaneIncarnation, Fault> {
    <[u8; 16]>::try_from(bytes).map(LaneIncarnation).map_err(|_| Fault::Incarnation(bytes.len()))
}

fn session_name(name: String) -> Result<SessionName, Fault> {
    SessionName::new(name.as_str())
        .map_err(|_| Fault::SessionName(name.chars().take(limits::NAME_TOLD_CHARS).collect()))
}

fn wait(milliseconds: u32) -> Duration {
    match milliseconds {
        0 => limits::OPEN_WAIT,
        milliseconds => Duration::from_millis(u64::from(milliseconds)).min(OPEN_WAIT_MAX),
    }
}

fn header(code: i32, shape: Vec<u64>, name: String) -> Result<TensorHeader, Fault> {
    let dtype = wire::DType::try_from(code).ok().and_then(dtype).ok_or(Fault::UnknownDtype(code))?;
    within("dimensions", shape.len(), DIMENSIONS_MAX)?;
    within("bytes of name", name.len(), TENSOR_NAME_BYTES_MAX)?;
    Ok(TensorHeader { dtype, shape, run: false, name })
}

const fn within(what: &'static str, actual: usize, max: usize) -> Result<(), Fault> {
    if actual > max { Err(Fault::Header { what, max }) } else { Ok(()) }
}

const fn dtype(dtype: wire::DType) -> Option<Dtype> {
    Some(match dtype {
        wire::DType::DtypeUnspecified => return None,
        wire::DType::DtypeBool => Dtype::Bool,
        wire::DType::DtypeUint8 => Dtype::Uint8,
        wire::DType::DtypeInt8 => Dtype::Int8,
        wire::DType::DtypeUint16 => Dtype::Uint16,
        wire::DType::DtypeInt16 => Dtype::Int16,
        wire::DType::DtypeUint32 => Dtype::Uint32,
        wire::DType::DtypeInt32 => Dtype::Int32,
        wire::DType::DtypeUint64 => Dtype::Uint64,
        wire::DType::DtypeInt64 => Dtype::Int64,
        wire::DType::DtypeFloat16 => Dtype::Float16,
        wire::DType::DtypeBfloat16 => Dtype::Bfloat16,
        wire::DType::DtypeFloat32 => Dtype::Float32,
        wire::DType::DtypeFloat64 => Dtype::Float64,
        wire::DType::DtypeComplex64 => Dtype::Complex64,
        wire::DType::DtypeComplex128 => Dtype::Complex128,
        wire::DType::DtypeFloat8E4m3fn => Dtype::Float8E4m3,
        wire::DType::DtypeFloat8E5m2 => Dtype::Float8E5m2,
    })
}

// ---- to clients ------------------------------------------------------------------------------------------------

pub(super) fn put_news(news: put::News) -> wire::PutResponse {
    use wire::put_response::Message;
    let message = match news {
        put::News::Opened { incarnation, next, window, tensor_bytes_max } => {
            Message::Opened(wire::PutOpened {
                incarnation: incarnation.0.to_vec().into(),
                next: next.0,
                window,
                tensor_bytes_max,
                message_bytes_max: limits::MESSAGE_BYTES_MAX as u64,
            })
        }
        put::News::Accepted(accepted) => Message::Accepted(ranges(accepted)),
        put::News::Assigned { batch, assignments } => {
            let replica = |ReplicaId(id): ReplicaId| id.to_vec().into();
            let assignment = |(Sequence(sequence), replicas): (Sequence, Vec<ReplicaId>)| wire::Assignment {
                sequence,
                replicas: replicas.into_iter().map(replica).collect(),
            };
            let assignments = assignments.into_iter().map(assignment).collect();
            Message::Assigned(wire::Assigned { batch, assignments })
        }
        put::News::Taken(taken) => Message::Taken(ranges(taken)),
        put::News::Uncertain(uncertain) => Message::Uncertain(ranges(uncertain)),
        put::News::Flushed(flushed) => {
            Message::Flushed(wire::Flushed { id: flushed.id, uncertain: flushed.uncertain })
        }
        put::News::Closed { uncertain } => Message::Closed(wire::Closed { uncertain }),
    };
    wire::PutResponse { message: Some(message) }
}

fn ranges(ranges: Vec<(u64, u64)>) -> wire::Ranges {
    let range = |(first, last)| wire::Range { first, last };
    wire::Ranges { ranges: ranges.into_iter().map(range).collect() }
}

pub(super) fn take_news(news: take::News) -> wire::TakeResponse {
    use wire::take_response::Message;
    let message = match news {
        take::News::Opened { tensor_bytes_max } => Message::Opened(wire::TakeOpened { tensor_bytes_max }),
        take::News::Tensor { delivery, data } => {
            let Delivery { id, slot: _, length, header, sender, sequence } = delivery;
            let TensorHeader { dtype, shape, run: _, name } = header;
            Message::Tensor(wire::TakenTensor {
                delivery: id.0,
                sequence: sequence.0,
                sender,
                dtype: wire_dtype(dtype) as i32,
                shape,
                name,
                length,
                data,
            })
        }
        take::News::Chunk { offset, data } => Message::Chunk(wire::Chunk { offset, data }),
        take::News::Interrupted { sender } => Message::Interrupted(wire::Interrupted { sender }),
        take::News::Ended => Message::Ended(wire::Ended {}),
    };
    wire::TakeResponse { message: Some(message) }
}

const fn wire_dtype(dtype: Dtype) -> wire::DType {
    match dtype {
        Dtype::Bool => wire::DType::DtypeBool,
        Dtype::Uint8 => wire::DType::DtypeUint8,
        Dtype::Int8 => wire::DType::DtypeInt8,
        Dtype::Uint16 => wire::DType::DtypeUint16,
        Dtype::Int16 => wire::DType::DtypeInt16,
        Dtype::Uint32 => wire::DType::DtypeUint32,
        Dtype::Int32 => wire::DType::DtypeInt32,
        Dtype::Uint64 => wire::DType::DtypeUint64,
        Dtype::Int64 => wire::DType::DtypeInt64,
        Dtype::Float16 => wire::DType::DtypeFloat16,
        Dtype::Bfloat16 => wire::DType::DtypeBfloat16,
        Dtype::Float32 => wire::DType::DtypeFloat32,
        Dtype::Float64 => wire::DType::DtypeFloat64,
        Dtype::Complex64 => wire::DType::DtypeComplex64,
        Dtype::Complex128 => wire::DType::DtypeComplex128,
        Dtype::Float8E4m3 => wire::DType::DtypeFloat8E4m3fn,
        Dtype::Float8E5m2 => wire::DType::DtypeFloat8E5m2,
    }
}

pub(super) fn sessions(views: Vec<SessionView>) -> wire::SessionsResponse {
    wire::SessionsResponse { sessions: views.into_iter().map(session).collect() }
}

fn session(view: SessionView) -> wire::Session {
    let SessionView { name, direction, kind, standing } = view;
    let direction = match direction {
        Direction::Sending => wire::Direction::Sending,
        Direction::Receiving => wire::Direction::Receiving,
    };
    let kind = match kind {
        SessionKind::Stream => wire::Kind::Stream,
        SessionKind::Forward => wire::Kind::Forward,
    };
    let ready = standing.is_ok();
    let (refused, reason, message, remedy) = match standing {
        Ok(()) => Default::default(),
        Err(error) => (
            error.failure == LaneFailure::Refused,
            error.reason.to_string(),
            error.message,
            remedy::of(error.reason),
        ),
    };
    wire::Session {
        name: name.to_string(),
        direction: direction as i32,
        kind: kind as i32,
        ready,
        refused,
        reason,
        message,
        remedy,
    }
}

pub(super) fn health(draining: bool, process: [u8; 16]) -> wire::HealthResponse {
    use wire::health_response::Status;
    let status = if draining { Status::Draining } else { Status::Serving };
    wire::HealthResponse {
        status: status as i32,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: process.to_vec().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_map_one_to_one() {
        for known in Dtype::ALL {
            let there = wire_dtype(*known);
            assert_eq!(there as i32, i32::from(known.code()) + 1);
            assert_eq!(dtype(there), Some(*known));
        }
        assert_eq!(wire::DType::try_from(Dtype::ALL.len() as i32 + 1).ok(), None);
    }

    fn tensor(change: impl FnOnce(&mut wire::PutTensor)) -> Result<put::Ask, Fault> {
        let mut tensor = wire::PutTensor { dtype: wire::DType::DtypeUint8 as i32, ..Default::default() };
        change(&mut tensor);
        put_ask(wire::PutRequest { message: Some(wire::put_request::Message::Tensor(tensor)) })
    }

    #[test]
    fn headers_are_bounded() {
        assert!(tensor(|tensor| tensor.shape = vec![1; DIMENSIONS_MAX]).is_ok());
        assert!(matches!(
            tensor(|tensor| tensor.shape = vec![1; DIMENSIONS_MAX + 1]),
            Err(Fault::Header { .. })
        ));
        let name = "n".repeat(TENSOR_NAME_BYTES_MAX + 1);
        assert!(matches!(tensor(|tensor| tensor.name = name), Err(Fault::Header { .. })));
        for unknown in [-1, 0, 18, i32::MAX] {
            assert!(matches!(tensor(|tensor| tensor.dtype = unknown), Err(Fault::UnknownDtype(_))));
        }
        let replicas = vec![bytes::Bytes::from_static(&[0; 15])];
        assert!(matches!(tensor(|tensor| tensor.replicas = replicas), Err(Fault::Replica(15))));
        let replicas = vec![bytes::Bytes::from_static(&[0; 16]); REPLICAS_MAX + 1];
        assert!(matches!(tensor(|tensor| tensor.replicas = replicas), Err(Fault::Header { .. })));
    }

    #[test]
    fn what_is_left_out_has_a_meaning() {
        assert_eq!(wait(0), limits::OPEN_WAIT);
        assert_eq!(wait(5), Duration::from_millis(5));
        assert_eq!(wait(u32::MAX), OPEN_WAIT_MAX);
        assert!(matches!(put_ask(wire::PutRequest { message: None }), Err(Fault::Empty)));
        assert!(matches!(take_ask(wire::TakeRequest { message: None }), Err(Fault::Empty)));
    }
}
