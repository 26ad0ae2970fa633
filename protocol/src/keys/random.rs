//! Randomness, handed in.

/// The source of randomness gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no random numbers are available")]
pub struct RandomFailed;

/// A cryptographically secure source. The shell backs it with the operating system's; tests with a counter.
pub trait Random {
    /// Fills all of `bytes`.
    ///
    /// # Errors
    /// [`RandomFailed`] when the source gives nothing; `bytes` must then not be used.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed>;
}
