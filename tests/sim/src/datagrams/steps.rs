//! Values that change at known moments.

use sealane_protocol::Moment;

#[derive(Debug, Clone)]
pub struct Steps<T> {
    first: T,
    /// In order.
    later: Vec<(Moment, T)>,
}

impl<T: Copy> Steps<T> {
    #[must_use]
    pub const fn always(value: T) -> Self {
        Self { first: value, later: Vec::new() }
    }

    /// From `moment` on, which is later than all named before.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn then(mut self, moment: Moment, value: T) -> Self {
        assert!(self.later.last().is_none_or(|(last, _)| *last < moment), "steps are in order");
        self.later.push((moment, value));
        self
    }

    #[must_use]
    pub fn at(&self, now: Moment) -> T {
        let passed = self.later.partition_point(|(moment, _)| *moment <= now);
        passed.checked_sub(1).and_then(|last| self.later.get(last)).map_or(self.first, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_from_its_moment_on() {
        let at = Moment::from_micros;
        let steps = Steps::always(1).then(at(10), 2).then(at(20), 3);
        assert_eq!([0, 9, 10, 19, 20, 99].map(|now| steps.at(at(now))), [1, 1, 2, 2, 3, 3]);
    }
}
