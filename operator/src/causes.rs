//! An error with its causes in one line: log formats print only the error itself.

use std::error::Error;
use std::fmt;

/// Displays an error and every source below it, separated by colons.
#[derive(Debug)]
pub struct Causes<'a>(pub &'a dyn Error);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the map")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn every_cause_is_told() {
        let error = Outer(std::fmt::Error);
        assert_eq!(Causes(&error).to_string(), format!("cannot read the map: {}", std::fmt::Error));
    }
}
