//! What carries a connection: what its session asks for, as far as the policy lists it and this pod has it.

use sealane_policy::VerifiedPolicy;
use sealane_types::{Carrier, CongestionChoice, Reason};

use super::permission::{self, listed};
use crate::desired::{Session, TransportChoice};
use crate::link::endpoint::Endpoint;

/// What a connection can be carried by, once it is dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// TCP alone, and why it is there in the place of UDP.
    Stream(Option<Hindrance>),
    /// UDP, and AF_XDP unless there is something against it.
    Datagrams(Result<(), Hindrance>),
}

/// Why a connection is not carried as the session asks or prefers: over UDP past the kernel, or over UDP at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// This pod has no device; the endpoint tells why.
    NoDevice,
    /// The way to the remote leaves by another device: to this very node, for one.
    AnotherDevice,
    /// UDP is preferred, and connections came about over TCP alone.
    NoAnswer,
}

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) by: Carrier,
    /// What decides how much is on the path of datagrams.
    pub(crate) congestion: CongestionChoice,
    /// Why it is not what the session asks for.
    pub(crate) instead: Option<Hindrance>,
}

impl Hindrance {
    /// What a person should know about it.
    pub(crate) fn message(self, endpoint: &Endpoint) -> String {
        match self {
            Self::NoDevice => endpoint.device().err().unwrap_or("the device was opened since").to_owned(),
            Self::AnotherDevice => {
                "the way to the other side leaves by another network device; to the same node it always does"
                    .to_owned()
            }
            Self::NoAnswer => {
                "Udp is preferred and no connection came about over it, so Tcp carries the session; open the data port for UDP too"
                    .to_owned()
            }
        }
    }
}

impl Carried {
    /// As the session asks.
    pub(crate) const fn by(carrier: Carrier) -> Self {
        Self { by: carrier, congestion: CongestionChoice::Cubic, instead: None }
    }

    /// In the place of another.
    const fn in_place(carrier: Carrier, hindrance: Option<Hindrance>) -> Self {
        Self { instead: hindrance, ..Self::by(carrier) }
    }

    /// What carries a connection whose session, if it has one, asks for `wanted`.
    ///
    /// # Errors
    /// As [`Self::limited_by`].
    pub(crate) fn of(way: Way, wanted: TransportChoice, policy: &VerifiedPolicy) -> Result<Self, Reason> {
        let carried = match (way, wanted.carrier) {
            (Way::Stream(instead), _) => Self::in_place(Carrier::Tcp, instead),
            (Way::Datagrams(Ok(())), Some(Carrier::AfXdp)) => Self::by(Carrier::AfXdp),
            (Way::Datagrams(Err(hindrance)), Some(Carrier::AfXdp)) => {
                Self::in_place(Carrier::Udp, Some(hindrance))
            }
            (Way::Datagrams(_), _) => Self::by(Carrier::Udp),
        };
        Self { congestion: wanted.congestion, ..carried }.limited_by(policy)
    }

    /// As far as the policy lists it.
    ///
    /// # Errors
    /// [`Reason::CarrierRefused`], [`Reason::CongestionRefused`].
    fn limited_by(self, policy: &VerifiedPolicy) -> Result<Self, Reason> {
        listed(policy, self.by)?;
        match self.by {
            Carrier::Tcp => Ok(self),
            Carrier::Udp | Carrier::AfXdp => {
                Ok(Self { congestion: permission::congestion(policy, self.congestion)?, ..self })
            }
        }
    }

    /// As it is told of a session that may prefer another carrier by now: nobody misses UDP who does not ask for it any more.
    fn told(self, session: &Session) -> Self {
        let asked = || session.carriers().first() == Some(&Carrier::Udp);
        let instead = self.instead.filter(|hindrance| *hindrance != Hindrance::NoAnswer || asked());
        Self { instead, ..self }
    }

    /// What is degraded about it.
    pub(crate) fn degraded(self) -> Option<Reason> {
        self.instead.map(|_| Reason::CarrierFallback)
    }
}

/// How the connections of a session are carried: the first that is not as asked, since people have to know of it.
pub(crate) fn carried(connections: impl Iterator<Item = Carried> + Clone, session: &Session) -> Carried {
    let connections = connections.map(|one| one.told(session));
    let mut all = connections.clone();
    let first = || session.carriers().first().copied().unwrap_or(Carrier::Tcp);
    all.find(|one| one.instead.is_some())
        .or_else(|| connections.clone().next())
        .unwrap_or_else(|| Carried::by(first()))
}

/// What carries one connection, which is settled when that is established: what its session asks for afterwards is for the
/// next one.
#[derive(Debug)]
pub(crate) struct Carriage {
    way: Way,
    carried: Carried,
    /// What its session asked for as congestion control: of `Auto`, a policy may list another part than before.
    asked: CongestionChoice,
    settled: bool,
}

impl Carriage {
    pub(crate) const fn new(way: Way) -> Self {
        Self { way, carried: Carried::by(way.carrier()), asked: CongestionChoice::Auto, settled: false }
    }

    /// Whether `policy` lists what carries it.
    ///
    /// # Errors
    /// As [`Carried::of`].
    pub(crate) fn judge(&mut self, wanted: TransportChoice, policy: &VerifiedPolicy) -> Result<(), Reason> {
        if self.settled {
            let Self { asked, carried, .. } = *self;
            self.carried = Carried { congestion: asked, ..carried }.limited_by(policy)?;
            return Ok(());
        }
        self.carried = Carried::of(self.way, wanted, policy)?;
        self.asked = wanted.congestion;
        Ok(())
    }

    pub(crate) const fn settle(&mut self) -> Carried {
        self.settled = true;
        self.carried
    }

    pub(crate) const fn carried(&self) -> Carried {
        self.carried
    }
}

impl Way {
    /// What carries it before its session is known.
    pub(crate) const fn carrier(self) -> Carrier {
        match self {
            Self::Stream(_) => Carrier::Tcp,
            Self::Datagrams(_) => Carrier::Udp,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::context::tests::{context, permit_under};
    use crate::desired::Preferred;

    const fn cubic(carrier: Option<Carrier>) -> TransportChoice {
        TransportChoice { carrier, congestion: CongestionChoice::Cubic }
    }

    /// What a policy with these floors makes of it.
    fn under_floors(floors: &Value, way: Way, wanted: TransportChoice) -> Result<Carried, Reason> {
        let context = context(Some("ranker"));
        permit_under(&context, 1, &json!({}), &json!([]), floors);
        let standing = context.policy.standing();
        Carried::of(way, wanted, &standing.held().unwrap().policy)
    }

    /// What a policy that lists `carriers` makes of it.
    fn under(carriers: &[&str], way: Way, wanted: Option<Carrier>) -> Result<Carried, Reason> {
        under_floors(&json!({"carriers": carriers}), way, cubic(wanted))
    }

    #[tokio::test]
    async fn a_connection_is_carried_as_asked_or_by_udp_in_its_place_if_the_policy_lists_it() {
        const OPEN: Way = Way::Datagrams(Ok(()));
        const NONE: Way = Way::Datagrams(Err(Hindrance::NoDevice));
        let xdp = Some(Carrier::AfXdp);
        let all = ["Tcp", "Udp", "AfXdp"];
        let instead = Carried::in_place(Carrier::Udp, Some(Hindrance::NoDevice));
        assert_eq!(under(&all, Way::Stream(None), xdp), Ok(Carried::by(Carrier::Tcp)));
        let unanswered = Carried::in_place(Carrier::Tcp, Some(Hindrance::NoAnswer));
        assert_eq!(under(&all, Way::Stream(Some(Hindrance::NoAnswer)), Some(Carrier::Tcp)), Ok(unanswered));
        assert_eq!(under(&all, OPEN, xdp), Ok(Carried::by(Carrier::AfXdp)));
        assert_eq!(under(&all, OPEN, Some(Carrier::Udp)), Ok(Carried::by(Carrier::Udp)));
        assert_eq!(under(&all, OPEN, None), Ok(Carried::by(Carrier::Udp)), "an audit");
        assert_eq!(under(&all, NONE, xdp), Ok(instead));
        assert_eq!(instead.degraded(), Some(Reason::CarrierFallback));
        assert_eq!(under(&["Udp"], OPEN, xdp), Err(Reason::CarrierRefused));
        assert_eq!(under(&["AfXdp"], OPEN, xdp), Ok(Carried::by(Carrier::AfXdp)));
        assert_eq!(under(&["AfXdp"], NONE, xdp), Err(Reason::CarrierRefused));
        assert_eq!(under(&["Tcp"], OPEN, None), Err(Reason::CarrierRefused));
    }

    #[tokio::test]
    async fn what_carries_an_established_connection_does_not_change_and_has_to_stay_listed() {
        let context = context(Some("ranker"));
        let mut carriage = Carriage::new(Way::Datagrams(Ok(())));
        let mut judge = |epoch, carriers: &[&str], wanted, settle: bool| {
            permit_under(&context, epoch, &json!({}), &json!([]), &json!({"carriers": carriers}));
            let standing = context.policy.standing();
            let judged = carriage.judge(cubic(wanted), &standing.held().unwrap().policy);
            if settle {
                carriage.settle();
            }
            judged.map(|()| carriage.carried().by)
        };
        assert_eq!(judge(1, &["Udp", "AfXdp"], None, false), Ok(Carrier::Udp), "no session is known yet");
        assert_eq!(judge(2, &["Udp", "AfXdp"], Some(Carrier::AfXdp), true), Ok(Carrier::AfXdp));
        assert_eq!(judge(3, &["Udp", "AfXdp"], Some(Carrier::Udp), false), Ok(Carrier::AfXdp));
        assert_eq!(judge(4, &["Udp"], Some(Carrier::Udp), false), Err(Reason::CarrierRefused));
    }

    #[tokio::test]
    async fn datagrams_are_under_what_the_session_asks_for_as_far_as_the_policy_lists_it() {
        use CongestionChoice::{Auto, Bbr, Cubic};
        const UDP: Way = Way::Datagrams(Err(Hindrance::NoDevice));
        let under = |listed: &[&str], way, congestion| {
            let wanted = TransportChoice { carrier: None, congestion };
            under_floors(&json!({"congestion": listed}), way, wanted).map(|carried| carried.congestion)
        };
        for wanted in [Auto, Cubic, Bbr] {
            assert_eq!(under(&["Cubic", "Bbr"], UDP, wanted), Ok(wanted));
            assert!(under(&["Cubic"], Way::Stream(None), wanted).is_ok(), "the kernel's to decide");
        }
        assert_eq!(under(&["Cubic"], UDP, Auto), Ok(Cubic));
        assert_eq!(under(&["Bbr"], UDP, Auto), Ok(Bbr));
        assert_eq!(under(&["Cubic"], UDP, Bbr), Err(Reason::CongestionRefused));
        assert_eq!(under(&["Bbr"], UDP, Cubic), Err(Reason::CongestionRefused));
    }

    #[tokio::test]
    async fn an_established_connection_keeps_to_what_the_policy_lists_by_now() {
        let context = context(Some("ranker"));
        let standing = |epoch, listed: &[&str]| {
            permit_under(&context, epoch, &json!({}), &json!([]), &json!({"congestion": listed}));
            context.policy.standing()
        };
        let of = |congestion| {
            let mut carriage = Carriage::new(Way::Datagrams(Err(Hindrance::NoDevice)));
            let wanted = TransportChoice { congestion, ..TransportChoice::ANY };
            carriage.judge(wanted, &standing(1, &["Cubic", "Bbr"]).held().unwrap().policy).unwrap();
            carriage.settle();
            carriage
        };
        let [mut open, mut named] = [CongestionChoice::Auto, CongestionChoice::Bbr].map(of);
        for (epoch, listed, expected) in
            [(2, "Cubic", CongestionChoice::Cubic), (3, "Bbr", CongestionChoice::Bbr)]
        {
            let standing = standing(epoch, &[listed]);
            let policy = &standing.held().unwrap().policy;
            assert_eq!(open.judge(TransportChoice::ANY, policy), Ok(()), "who left it open goes on");
            assert_eq!(open.carried().congestion, expected);
            let judged = named.judge(TransportChoice::ANY, policy);
            assert_eq!(judged.is_ok(), expected == CongestionChoice::Bbr);
        }
    }

    #[test]
    fn udp_is_missed_only_while_it_is_preferred() {
        let (session, _) = crate::desired::tests::served();
        let preferring = |carrier| Session {
            preferred: Preferred { carrier: Some(carrier), cipher: None },
            ..session.clone()
        };
        let unanswered = Carried::in_place(Carrier::Tcp, Some(Hindrance::NoAnswer));
        let [udp, tcp] = [Carrier::Udp, Carrier::Tcp].map(preferring);
        let of = |session: &Session| carried([Carried::by(Carrier::Tcp), unanswered].into_iter(), session);
        assert_eq!(of(&udp), unanswered, "the first that is not as asked");
        assert_eq!((of(&tcp), of(&session)), (Carried::by(Carrier::Tcp), Carried::by(Carrier::Tcp)));
        let none = std::iter::empty();
        assert_eq!(
            (carried(none.clone(), &udp), carried(none, &tcp)),
            (Carried::by(Carrier::Udp), Carried::by(Carrier::Tcp))
        );
    }
}
