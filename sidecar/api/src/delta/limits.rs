//! Bounds on configurations that are sent as changes. One beyond them goes whole, in one message.

/// Bytes of all items: as long as the largest message that a sidecar takes.
pub const CONFIGURATION_BYTES_MAX: usize = 16 << 20;
/// Items of one configuration: 256 sessions with a thousand replicas each.
pub const ITEMS_MAX: usize = 1 << 18;
/// Sessions of one configuration: four times what a sidecar accepts.
pub const SESSIONS_MAX: usize = 1024;
/// Bytes of a change in one message. A stream keeps a buffer as long as its longest message for as long as it lives.
pub const PART_BYTES_MAX: usize = 16 << 10;
