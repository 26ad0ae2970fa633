//! The work of each Peer as a whole, from its pods and from what makes them. A pod that ended says little by itself: a Job
//! tries again, a Deployment replaces what was evicted, and what a CronJob ran yesterday is history.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sealane_types::PeerName;

use crate::membership::{Membership, PeerSelector};
use crate::spec::{Expected, Outcome, PodPhase, PodView, Snapshot, ValidPeer, Work};
use crate::workload::{WorkloadState, WorkloadView};

/// Kubernetes' label with the index of an indexed Job's pod.
const COMPLETION_INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";

/// The work of every Peer in the cluster.
pub(super) fn by_peer(
    snapshot: &Snapshot,
    peers: &BTreeMap<PeerName, ValidPeer>,
    selectors: &[PeerSelector],
    memberships: &BTreeMap<String, PeerName>,
) -> BTreeMap<PeerName, Work> {
    let in_cluster = peers.iter().filter(|(_, peer)| peer.external.is_none());
    let mut parts: BTreeMap<&PeerName, Parts> =
        in_cluster.map(|(name, _)| (name, Parts::default())).collect();
    let roots = roots(&snapshot.workloads);
    let mut tallies: BTreeMap<usize, Tally<'_>> = BTreeMap::new();
    let mut alone: BTreeMap<&PeerName, Vec<&PodView>> = BTreeMap::new();
    for pod in &snapshot.pods {
        let peer = memberships.get(&pod.uid);
        let root = pod.owner.as_ref().and_then(|owner| roots.get(owner.uid.as_str()));
        if let Some(root) = root {
            tallies.entry(*root).or_default().count(pod, peer);
        }
        let Some(peer) = peer else { continue };
        if pod.phase == PodPhase::Live {
            if let Some(of_peer) = parts.get_mut(peer) {
                of_peer.active = true;
            }
        } else if root.is_none() && !pod.owner.as_ref().is_some_and(|owner| owner.is_known()) {
            // Pods of a workload that is gone are about to go too, and say nothing meanwhile.
            alone.entry(peer).or_default().push(pod);
        }
    }
    let history = history(&snapshot.workloads);
    for (index, view) in snapshot.workloads.iter().enumerate() {
        let counts = roots.get(view.uid.as_str()) == Some(&index) && !history.contains(view.uid.as_str());
        if !counts {
            continue;
        }
        let tally = tallies.remove(&index).unwrap_or_default();
        // A pod that two Peers select would be refused, so none is expected.
        let declared = match Membership::of(&view.labels, selectors) {
            Membership::One(peer) if view.takes_part() => Some(peer),
            Membership::One(_) | Membership::None | Membership::Conflict(..) => None,
        };
        let to_come = tally.to_come(view);
        if let Some(of_peer) = declared.as_ref().and_then(|peer| parts.get_mut(peer)).filter(|_| to_come > 0)
        {
            of_peer.active = true;
            of_peer.expected.push(Expected { workload: view.reference(), pods: to_come });
        }
        for peer in tally.peers.iter().copied().chain(&declared).collect::<BTreeSet<_>>() {
            if let Some(of_peer) = parts.get_mut(peer) {
                of_peer.hear(tally.outcome(view));
            }
        }
    }
    for (peer, pods) in alone {
        let Some(of_peer) = parts.get_mut(peer) else { continue };
        pods.iter().for_each(|pod| of_peer.hear(by_itself(pod, &pods)));
    }
    parts.into_iter().map(|(peer, parts)| (peer.clone(), parts.whole())).collect()
}

/// What is known of a Peer's work, part by part.
#[derive(Debug, Default)]
struct Parts {
    active: bool,
    succeeded: bool,
    failed: Option<String>,
    expected: Vec<Expected>,
}

impl Parts {
    fn hear(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Unknown => {}
            Outcome::Active => self.active = true,
            Outcome::Succeeded => self.succeeded = true,
            Outcome::Failed(why) => self.failed = self.failed.take().or(Some(why)),
        }
    }

    fn whole(self) -> Work {
        let Self { active, succeeded, failed, expected } = self;
        let outcome = match failed {
            _ if active => Outcome::Active,
            Some(why) => Outcome::Failed(why),
            None if succeeded => Outcome::Succeeded,
            None => Outcome::Unknown,
        };
        Work { outcome, expected }
    }
}

/// The pods of one workload.
#[derive(Debug, Default)]
struct Tally<'a> {
    live: u32,
    /// By index, where they have one: an index that succeeded twice is done once.
    succeeded: BTreeSet<&'a str>,
    /// Peers of these pods.
    peers: BTreeSet<&'a PeerName>,
}

impl<'a> Tally<'a> {
    fn count(&mut self, pod: &'a PodView, peer: Option<&'a PeerName>) {
        self.live += u32::from(pod.is_wanted());
        if pod.phase == PodPhase::Succeeded {
            let index = pod.labels.get(COMPLETION_INDEX_LABEL);
            self.succeeded.insert(index.unwrap_or(&pod.uid));
        }
        self.peers.extend(peer);
    }

    fn succeeded(&self) -> u32 {
        u32::try_from(self.succeeded.len()).unwrap_or(u32::MAX)
    }

    /// Pods that the workload is still to make.
    fn to_come(&self, view: &WorkloadView) -> u32 {
        let wanted = match &view.state {
            WorkloadState::Serving { pods } => *pods,
            WorkloadState::Running(completions) => completions.left(self.succeeded()),
            WorkloadState::Succeeded | WorkloadState::Failed(_) => 0,
        };
        wanted.saturating_sub(self.live)
    }

    fn outcome(&self, view: &WorkloadView) -> Outcome {
        match &view.state {
            // It never ends, and what ended of it was replaced.
            WorkloadState::Serving { .. } => Outcome::Unknown,
            // The Job's own controller says so within seconds.
            WorkloadState::Running(completions)
                if self.live == 0 && completions.are_complete(self.succeeded()) =>
            {
                Outcome::Succeeded
            }
            WorkloadState::Running(_) => Outcome::Active,
            WorkloadState::Succeeded => Outcome::Succeeded,
            WorkloadState::Failed(why) => {
                Outcome::Failed(format!("{} `{}` has failed: {why}", view.kind, view.name))
            }
        }
    }
}

/// By uid of a workload: the index of the one that counts for it. A Deployment counts for its ReplicaSets.
fn roots(workloads: &[WorkloadView]) -> HashMap<&str, usize> {
    let own: HashMap<&str, usize> =
        workloads.iter().enumerate().map(|(index, view)| (view.uid.as_str(), index)).collect();
    let root = |(index, view): (usize, &WorkloadView)| {
        view.owner.as_ref().and_then(|owner| own.get(owner.uid.as_str())).copied().unwrap_or(index)
    };
    workloads.iter().enumerate().map(|(index, view)| (view.uid.as_str(), root((index, view)))).collect()
}

/// Uids of Jobs that ended and were followed by another of the same CronJob that ended as well.
fn history(workloads: &[WorkloadView]) -> BTreeSet<&str> {
    let ended =
        |view: &&WorkloadView| matches!(view.state, WorkloadState::Succeeded | WorkloadState::Failed(_));
    let runs = || {
        let ended = workloads.iter().filter(ended);
        ended.filter_map(|view| Some((view.cron_job()?.uid.as_str(), view)))
    };
    let mut newest: BTreeMap<&str, &WorkloadView> = BTreeMap::new();
    for (cron_job, view) in runs() {
        let held = newest.entry(cron_job).or_insert(view);
        if (view.made, &view.name) > (held.made, &held.name) {
            *held = view;
        }
    }
    let older = runs().filter(|(cron_job, view)| newest.get(cron_job).is_some_and(|one| one.uid != view.uid));
    older.map(|(_, view)| view.uid.as_str()).collect()
}

/// What a pod that ended says, if nothing that is known here made it. Where something else did, a pod that it made after
/// this one had ended stands for it.
fn by_itself(pod: &PodView, pods: &[&PodView]) -> Outcome {
    let ended = pod.ended.or(pod.made);
    let replaced = pod.owner.is_some()
        && pods.iter().any(|other| other.owner == pod.owner && other.uid != pod.uid && other.made > ended);
    match pod.phase {
        _ if replaced => Outcome::Unknown,
        PodPhase::Live => Outcome::Active,
        PodPhase::Succeeded => Outcome::Succeeded,
        PodPhase::Failed => Outcome::Failed(format!("pod `{}` has failed", pod.name)),
    }
}
