//! Every bound of the door. `DOOR.md` states those that a client can meet.

use std::time::Duration;

/// Clients connected at once.
pub(super) const CLIENTS_MAX: usize = 64;
/// Lanes of one client, closed ones with unreleased tensors included.
pub(super) const LANES_PER_CLIENT_MAX: usize = 64;
/// Put segments of one client.
pub(super) const SEGMENTS_PER_CLIENT_MAX: usize = 256;
/// Requests for segments that one client may have unanswered.
pub(super) const WANTS_WAITING_MAX: usize = 16;
/// Tensors of a lane that are put and not yet taken, or set aside, delivered and not yet released.
pub(super) const WINDOW_TENSORS: u32 = 1024;

/// Longest message, either way.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Longest name that a client gives itself for logs.
pub(super) const CLIENT_NAME_BYTES_MAX: usize = 64;
/// Most replicas that a tensor can have been assigned to: what a broadcast reaches.
pub(super) const REPLICAS_MAX: usize = 256;

/// What there is to do when the memory does not suffice. The containers of an injected pod cannot set it themselves.
pub(super) const MORE_MEMORY: &str = "close lanes, or annotate the pod with a larger sealane.dev/memory-limit, of which shared memory is a part (SEALANE_ARENA_BYTES where you start the sidecar yourself)";

/// The usual segment. Small enough to stay near the caches, large enough for several tensors of everyday size.
pub(super) const SEGMENT_BYTES: u64 = 16 << 20;
/// Segment sizes are rounded up to this, so that sizes repeat.
pub(super) const SEGMENT_STEP_BYTES: u64 = 64 << 10;
/// Slots start at multiples of this: a cache line, and what vector loads like.
pub(super) const SLOT_ALIGNMENT: u64 = 64;
/// What a take arena holds of tensors, unless [`TENSORS_HELD_WANTED`] of them are more.
pub(super) const ARENA_USUAL_BYTES_MAX: u64 = 64 << 20;
/// How many tensors an arena tries to hold, so that one is on its way while another is used.
pub(super) const TENSORS_HELD_WANTED: u64 = 4;

/// News of a lane that share messages. Lists of ranges stay far below a message's length.
pub(super) const NEWS_PER_MESSAGE_MAX: usize = 256;

/// A client that has not said hello by then is turned away.
pub(super) const HELLO_SECONDS: Duration = Duration::from_secs(10);
/// Longest wait for a lane that a client can ask for.
pub(super) const OPEN_WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a lane that failed waits for the session to say why.
pub(super) const LAST_NEWS_WAIT: Duration = Duration::from_secs(1);
/// Pause before a client is asked once more for memory that lies idle.
pub(super) const IDLE_ASK_PAUSE: Duration = Duration::from_millis(100);
/// Pause after a failed accept.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(SEGMENT_STEP_BYTES));
const _: () = assert!(SEGMENT_STEP_BYTES.is_multiple_of(SLOT_ALIGNMENT));
// One entry of a PUT or DELIVER with every field at its longest fits in a message beside the header.
const _: () = assert!(8 + 16 * NEWS_PER_MESSAGE_MAX <= MESSAGE_BYTES_MAX);
const _: () = assert!(8 + 44 + 8 * 255 + 255 + 16 * REPLICAS_MAX <= MESSAGE_BYTES_MAX);
