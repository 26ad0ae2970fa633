//! What became of the datagrams of one path.

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub sent_datagrams: u64,
    pub sent_bytes: u64,
    /// Duplicates count.
    pub delivered_datagrams: u64,
    pub delivered_bytes: u64,
    /// The queue of the link was full.
    pub overflowed: u64,
    pub lost: u64,
    pub too_large: u64,
    pub blackholed: u64,
    /// Nobody has the address any more.
    pub misaddressed: u64,
    pub duplicated: u64,
    pub corrupted: u64,
    pub reordered: u64,
}
