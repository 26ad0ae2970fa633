//! Policies that a remote offers on its connection.

/// Policy chains that the remote offers. One is looked at while the newest other one waits, so that a remote that
/// offers without end costs the memory of two.
#[derive(Debug, Default)]
pub(super) struct Offers {
    looking: bool,
    waiting: Option<Vec<u8>>,
}

impl Offers {
    /// The chain to look at now, if its turn has come.
    pub(super) fn offered(&mut self, chain: Vec<u8>) -> Option<Vec<u8>> {
        if self.looking {
            self.waiting = Some(chain);
            return None;
        }
        self.looking = true;
        Some(chain)
    }

    /// One was looked at; the next one, if there is one.
    pub(super) fn looked(&mut self) -> Option<Vec<u8>> {
        let next = self.waiting.take();
        self.looking = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_without_end_cost_the_memory_of_two() {
        let mut offers = Offers::default();
        assert_eq!(offers.offered(vec![1]), Some(vec![1]));
        assert_eq!(offers.offered(vec![2]), None);
        assert_eq!(offers.offered(vec![3]), None, "only the newest waits");
        assert_eq!(offers.looked(), Some(vec![3]));
        assert_eq!(offers.offered(vec![4]), None);
        assert_eq!(offers.looked(), Some(vec![4]));
        assert_eq!(offers.looked(), None);
        assert_eq!(offers.offered(vec![5]), Some(vec![5]));
    }
}
