//! Every bound of the gRPC door. `GRPC.md` states those that a client can meet.

use std::time::Duration;

use sealane_sidecar_api::put_tensor::{DIMENSIONS_KEPT, REPLICAS_KEPT};

use crate::config::ARENA_BYTES;
use crate::door::limits::{REPLICAS_MAX, WINDOW_TENSORS};
use crate::handoff::DIMENSIONS_MAX;

/// Connections at once.
pub(super) const CLIENTS_MAX: usize = 32;
/// Connections beyond, each of which is told so and then closed.
pub(super) const TURNED_AWAY_MAX: usize = 8;
/// How long a connection that is one too many may stay to be told.
pub(super) const TURNED_AWAY_STAY: Duration = Duration::from_secs(10);
/// Put and take calls of one connection at once.
pub(super) const LANES_PER_CLIENT_MAX: usize = 16;
/// Calls of one connection at once: lanes, and room to ask about sessions and health and to be refused.
pub(super) const CALLS_PER_CLIENT_MAX: u32 = 64;

/// What one call may have under way to the sidecar before it is read.
pub(super) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// What one connection may. Lanes that stand still cannot use it up, so none of them holds up another.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 24 << 20;
/// Large frames: with HTTP/2's default of 16 KiB half of the time goes into frame headers (measured).
pub(super) const FRAME_BYTES_MAX: u32 = 1 << 20;
/// What is queued for one call before it is asked for more.
pub(super) const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Request headers of one call.
pub(super) const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Longest message of a put call.
pub(super) const MESSAGE_BYTES_MAX: usize = (4 << 20) + (64 << 10);
/// Longest message of every other call.
pub(super) const MESSAGE_BYTES_SMALL: usize = 32 << 10;
/// Tensor bytes in one message to a client. Clients accept 4 MiB unless they are told otherwise; less lets 64 lanes be paid for.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Tensor bytes that are written at one time, so that other lanes get their turn.
pub(super) const WRITE_BYTES: usize = 256 << 10;

/// Memory that a put call is charged for beside its tensors: its window and a message that is being put together.
pub(super) const PUT_LANE_BYTES: u64 = STREAM_WINDOW_BYTES as u64 + MESSAGE_BYTES_MAX as u64;
/// Memory that a take call is charged for beside its tensors: what is queued for its connection, to which a chunk may come when
/// there is almost no room; the one that hyper holds until there is; those that wait, and the one that is being made.
pub(super) const TAKE_LANE_BYTES: u64 =
    SEND_BUFFER_BYTES as u64 + ((TAKE_NEWS_WAITING_MAX + 3) * CHUNK_BYTES) as u64;
/// Buffers that one take call keeps for chunks.
pub(super) const BUFFERS_MAX: usize = 4;
/// Lanes of either side that a pod with the memory of the defaults can have.
const LANES_WITH_DEFAULTS: u64 = 64;

/// Messages to a client that wait to be written.
pub(super) const PUT_NEWS_WAITING_MAX: usize = 16;
/// As [`PUT_NEWS_WAITING_MAX`]; each may carry a chunk.
pub(super) const TAKE_NEWS_WAITING_MAX: usize = 2;
/// News of a lane that share messages.
pub(super) const NEWS_PER_MESSAGE_MAX: usize = 256;
/// Flushes of one lane that wait at once.
pub(super) const FLUSHES_MAX: usize = 64;

/// Wait for a lane of a client that names none.
pub(super) const OPEN_WAIT: Duration = Duration::from_secs(30);
/// A call that has not said what it wants by then is ended.
pub(super) const FIRST_MESSAGE_WAIT: Duration = Duration::from_secs(10);
/// Characters of a name that is none, as the client is told it.
pub(super) const NAME_TOLD_CHARS: usize = 64;
/// How often clients that watch sessions are told of changes at most.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(250);

const _: () = assert!(LANES_PER_CLIENT_MAX as u32 * STREAM_WINDOW_BYTES < CONNECTION_WINDOW_BYTES);
const _: () = assert!(LANES_PER_CLIENT_MAX < CALLS_PER_CLIENT_MAX as usize);
const _: () = assert!(TAKE_NEWS_WAITING_MAX < BUFFERS_MAX);
// An eighth is left for their tensors.
const _: () = assert!(LANES_WITH_DEFAULTS * (PUT_LANE_BYTES + TAKE_LANE_BYTES) <= ARENA_BYTES / 8 * 7);
// Decoding keeps enough of a list for it to be refused.
const _: () = assert!(DIMENSIONS_KEPT > DIMENSIONS_MAX && REPLICAS_KEPT > REPLICAS_MAX);
// Lists of what was taken, whatever their numbers: a window of varints.
const _: () = assert!(10 * WINDOW_TENSORS as usize + 64 <= MESSAGE_BYTES_SMALL);
