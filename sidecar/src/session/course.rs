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
/// How often in a row: who was just coming up the first time answers the second time.
const SILENCES_MAX: u32 = 2;
/// For how long the carrier is not tried again. A connection that stands is not remade for it afterwards.
const AVOIDED_MICROS: u64 = 600_000_000;

/// How one connection is dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) carrier: Carrier,
    /// Why it is not the preferred carrier.
    pub(super) instead: Option<Hindrance>,
    /// Whether another carrier takes its place where nobody answers.
    pub(super) yields: bool,
}

/// What is known of UDP towards one replica that answers over TCP.
#[derive(Debug, Default)]
pub(super) struct Silence {
    in_a_row: u32,
    avoided_until: Option<Moment>,
}

impl Course {
    /// Of the next connection; none where the policy lists nothing that can carry the session.
    pub(super) fn of(
        session: &Session,
        policy: &VerifiedPolicy,
        silence: &Silence,
        now: Moment,
    ) -> Option<Self> {
        let mut open = session.carriers().into_iter().filter(|carrier| listed(policy, *carrier).is_ok());
        let (first, next) = (open.next()?, open.next());
        let stand_in = next.filter(|_| first == Carrier::Udp);
        Some(match stand_in {
            Some(carrier) if silence.lasts(now) => {
                Self { carrier, instead: Some(Hindrance::NoAnswer), yields: false }
            }
            _ => Self { carrier: first, instead: None, yields: stand_in.is_some() },
        })
    }

    /// Until when the remote has to be heard over a carrier that gives way.
    pub(super) fn patience(self, now: Moment) -> Option<Moment> {
        self.yields.then(|| now.plus_micros(PATIENCE_MICROS))
    }
}

impl Silence {
    /// Nobody answered over UDP, and somebody did over TCP.
    pub(super) fn go_on(&mut self, now: Moment) {
        self.in_a_row += 1;
        if self.in_a_row >= SILENCES_MAX {
            *self = Self { in_a_row: 0, avoided_until: Some(now.plus_micros(AVOIDED_MICROS)) };
        }
    }

    /// Somebody answered, or nobody is there.
    pub(super) fn end(&mut self) {
        self.in_a_row = 0;
    }

    fn lasts(&self, now: Moment) -> bool {
        self.avoided_until.is_some_and(|until| now < until)
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

    fn at(micros: u64) -> Moment {
        Moment::from_micros(micros)
    }

    /// Under a policy that lists `carriers`, at the moment zero.
    fn under(
        carriers: &[&str],
        named: Option<Carrier>,
        preferred: Option<Carrier>,
        silence: &Silence,
    ) -> Option<Course> {
        let context = context(Some("embedder"));
        permit_under(&context, 1, &json!({}), &json!([]), &json!({"carriers": carriers}));
        let standing = context.policy.standing();
        let preferred = Preferred { carrier: preferred, cipher: None };
        let session = Session { carrier: named, preferred, ..served().0 };
        Course::of(&session, &standing.held().unwrap().policy, silence, at(0))
    }

    #[tokio::test]
    async fn the_preferred_carrier_is_dialled_where_the_policy_lists_it() {
        let (udp, xdp) = (Some(Carrier::Udp), Some(Carrier::AfXdp));
        let all = ["Tcp", "Udp", "AfXdp"];
        let of = |carriers: &[&str], preferred| under(carriers, None, preferred, &Silence::default());
        assert_eq!(of(&all, None), Some(TCP));
        assert_eq!(of(&all, udp), Some(YIELDING));
        assert_eq!(of(&["Tcp", "AfXdp"], udp), Some(TCP), "the policy does not list it");
        assert_eq!(of(&["Udp"], udp), Some(UDP), "nothing may stand in for it");
        assert_eq!(of(&["Udp", "AfXdp"], None), Some(UDP), "what the policy lists");
        assert_eq!(of(&all, xdp), Some(TCP), "it has to be named");
        assert_eq!(of(&["AfXdp"], xdp), None);
        assert_eq!(under(&all, udp, Some(Carrier::Tcp), &Silence::default()), Some(UDP), "what is named");
    }

    #[tokio::test]
    async fn who_is_silent_twice_is_reached_by_the_other_carrier_for_a_while() {
        let udp = Some(Carrier::Udp);
        let both = ["Tcp", "Udp"];
        let mut silence = Silence::default();
        silence.go_on(at(0));
        assert_eq!(under(&both, None, udp, &silence), Some(YIELDING), "it may have been coming up");
        silence.end();
        silence.go_on(at(0));
        assert!(!silence.lasts(at(0)), "not in a row");
        silence.go_on(at(0));
        assert_eq!(under(&both, None, udp, &silence), Some(STAND_IN));
        // It widens nothing, and what is named is not changed.
        assert_eq!(under(&["Udp"], None, udp, &silence), Some(UDP));
        assert_eq!(under(&both, udp, None, &silence), Some(UDP));
        assert_eq!(under(&both, None, None, &silence), Some(TCP), "nobody prefers it any more");
        assert!(silence.lasts(at(AVOIDED_MICROS - 1)) && !silence.lasts(at(AVOIDED_MICROS)));
        silence.go_on(at(AVOIDED_MICROS));
        assert!(!silence.lasts(at(AVOIDED_MICROS)), "then it gets as many tries as at first");
    }
}
