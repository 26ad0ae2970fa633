//! By what a replica is dialled: the carrier that its session names, or the first of those that it leaves open, as far as the
//! policy lists them. Pure.
//!
//! UDP is first only because it was measured to be faster, and measured elsewhere: where nobody answers over it, TCP carries
//! the session. TCP gives way to nothing, as what passes every network.

use sealane_policy::VerifiedPolicy;
use sealane_protocol::Moment;
use sealane_types::Carrier;

use super::carried::Hindrance;
use super::permission::listed;
use crate::desired::Session;

/// How long a remote may be silent over a carrier that gives way.
const PATIENCE_MICROS: u64 = 3_000_000;

/// How one connection is dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) carrier: Carrier,
    /// Why it is not the preferred carrier.
    pub(super) instead: Option<Hindrance>,
    /// Whether another carrier takes its place where nobody answers.
    pub(super) yields: bool,
}

impl Course {
    /// Of the next connection; none where the policy lists nothing that can carry the session. `is_silent`: nobody answers
    /// over UDP.
    pub(super) fn of(session: &Session, policy: &VerifiedPolicy, is_silent: bool) -> Option<Self> {
        let mut open = session.carriers().into_iter().filter(|carrier| listed(policy, *carrier).is_ok());
        let (first, next) = (open.next()?, open.next());
        let stand_in = next.filter(|_| first == Carrier::Udp);
        Some(match stand_in {
            Some(carrier) if is_silent => Self { carrier, instead: Some(Hindrance::NoAnswer), yields: false },
            _ => Self { carrier: first, instead: None, yields: stand_in.is_some() },
        })
    }

    /// Until when the remote has to be heard over a carrier that gives way.
    pub(super) fn patience(self, now: Moment) -> Option<Moment> {
        self.yields.then(|| now.plus_micros(PATIENCE_MICROS))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::context::tests::{context, permit_under};
    use crate::desired::Preferred;
    use crate::desired::tests::served;

    const TCP: Course = Course { carrier: Carrier::Tcp, instead: None, yields: false };
    const UDP: Course = Course { carrier: Carrier::Udp, ..TCP };
    const YIELDING: Course = Course { yields: true, ..UDP };
    const STAND_IN: Course = Course { instead: Some(Hindrance::NoAnswer), ..TCP };

    /// Under a policy that lists `carriers`.
    fn under(
        carriers: &[&str],
        named: Option<Carrier>,
        preferred: Option<Carrier>,
        is_silent: bool,
    ) -> Option<Course> {
        let context = context(Some("embedder"));
        permit_under(&context, 1, &json!({}), &json!([]), &json!({"carriers": carriers}));
        let standing = context.policy.standing();
        let preferred = Preferred { carrier: preferred, cipher: None };
        let session = Session { carrier: named, preferred, ..served().0 };
        Course::of(&session, &standing.held().unwrap().policy, is_silent)
    }

    #[tokio::test]
    async fn the_preferred_carrier_is_dialled_where_the_policy_lists_it() {
        let (udp, xdp) = (Some(Carrier::Udp), Some(Carrier::AfXdp));
        let all = ["Tcp", "Udp", "AfXdp"];
        let of = |carriers: &[&str], preferred| under(carriers, None, preferred, false);
        assert_eq!(of(&all, None), Some(TCP));
        assert_eq!(of(&all, udp), Some(YIELDING));
        assert_eq!(of(&["Tcp", "AfXdp"], udp), Some(TCP), "the policy does not list it");
        assert_eq!(of(&["Udp"], udp), Some(UDP), "nothing may stand in for it");
        assert_eq!(of(&["Udp", "AfXdp"], None), Some(UDP), "what the policy lists");
        assert_eq!(of(&all, xdp), Some(TCP), "it has to be named");
        assert_eq!(of(&["AfXdp"], xdp), None);
        assert_eq!(under(&all, udp, Some(Carrier::Tcp), false), Some(UDP), "what is named");
    }

    #[tokio::test]
    async fn the_other_carrier_stands_in_for_a_silent_one_that_is_preferred() {
        let udp = Some(Carrier::Udp);
        let both = ["Tcp", "Udp"];
        assert_eq!(under(&both, None, udp, true), Some(STAND_IN));
        // It widens nothing, and what is named is not changed.
        assert_eq!(under(&["Udp"], None, udp, true), Some(UDP));
        assert_eq!(under(&both, udp, None, true), Some(UDP));
        assert_eq!(under(&both, None, None, true), Some(TCP), "nobody prefers it");
    }
}
