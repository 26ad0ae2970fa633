//! What a service answered.

/// The body of a success.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    /// The header that the request named.
    pub(crate) header: Option<String>,
}
