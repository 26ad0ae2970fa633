//! What a new leader inherits: pods that ran when its term began. Their sidecars come back within seconds, and it waits
//! that long before it writes what they say of themselves. One that does not come back (its node is cut off, or it
//! crashes again and again) holds nobody up: whoever is connected to it is told that it is there, without addresses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::spec::{PodView, Snapshot};

/// Longer than a sidecar waits between two attempts to attach, and needs for one.
const PATIENCE: Duration = Duration::from_secs(8);

/// Pods that ran when this term of leadership began, by uid.
#[derive(Debug)]
pub(super) struct Inherited {
    since: Instant,
    pods: Arc<BTreeSet<String>>,
}

impl Inherited {
    /// From the pods of all namespaces, as the term begins.
    #[must_use]
    pub(super) fn new(now: Instant, pods: impl Iterator<Item = PodView>) -> Self {
        // A pod without an address has no sidecar yet that anybody could be connected to.
        let runs = |pod: &PodView| pod.injected && pod.is_wanted() && !pod.addresses.is_empty();
        Self { since: now, pods: Arc::new(pods.filter(runs).map(|pod| pod.uid).collect()) }
    }

    /// Their uids.
    #[must_use]
    pub(super) fn pods(&self) -> Arc<BTreeSet<String>> {
        Arc::clone(&self.pods)
    }

    /// How long a namespace waits at most for sidecars that have not come back; None when all are here, or are not
    /// waited for any longer.
    #[must_use]
    pub(super) fn wait(&self, now: Instant, snapshot: &Snapshot) -> Option<Duration> {
        let left =
            PATIENCE.checked_sub(now.saturating_duration_since(self.since)).filter(|left| !left.is_zero())?;
        let here: BTreeSet<_> = snapshot.sidecars.iter().map(|sidecar| sidecar.identity.uid()).collect();
        let awaited = |pod: &&PodView| {
            pod.is_wanted() && self.pods.contains(&pod.uid) && !here.contains(pod.uid.as_str())
        };
        snapshot.pods.iter().any(|pod| awaited(&pod)).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{pod, snapshot};
    use super::*;

    #[test]
    fn a_sidecar_that_is_not_back_is_waited_for_and_not_for_ever() {
        let (began, mut snapshot) = (Instant::now(), snapshot());
        let inherited = Inherited::new(began, snapshot.pods.clone().into_iter());
        assert_eq!(inherited.wait(began, &snapshot), None, "all are here");
        snapshot.sidecars.pop();
        assert_eq!(inherited.wait(began, &snapshot), Some(PATIENCE));
        let second = Duration::from_secs(1);
        assert_eq!(inherited.wait(began + PATIENCE - second, &snapshot), Some(second));
        assert_eq!(inherited.wait(began + PATIENCE, &snapshot), None);
    }

    #[test]
    fn a_pod_that_leaves_or_came_later_is_not_waited_for() {
        let (began, mut snapshot) = (Instant::now(), snapshot());
        let inherited = Inherited::new(began, snapshot.pods.clone().into_iter());
        snapshot.pods.push(pod("ranker", 9));
        assert_eq!(inherited.wait(began, &snapshot), None, "it came later");
        let sidecar = snapshot.sidecars.pop().unwrap();
        let gone = snapshot.pods.iter_mut().find(|pod| pod.uid == sidecar.identity.uid()).unwrap();
        gone.leaving = true;
        assert_eq!(inherited.wait(began, &snapshot), None, "it leaves");
    }

    #[test]
    fn pods_that_could_not_be_attached_are_not_waited_for() {
        let unattached: [fn(&mut PodView); 3] = [
            |pod| pod.addresses.clear(),
            |pod| pod.injected = false,
            |pod| pod.phase = crate::spec::PodPhase::Succeeded,
        ];
        for change in unattached {
            let (began, mut snapshot) = (Instant::now(), snapshot());
            snapshot.sidecars.clear();
            snapshot.pods.iter_mut().for_each(change);
            let inherited = Inherited::new(began, snapshot.pods.clone().into_iter());
            assert_eq!(inherited.wait(began, &snapshot), None);
        }
    }
}
