//! Step three, pure: what sessions that leave it to the cluster are to prefer, and why. Only among what the policy lists:
//! that is what it holds equally safe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealane_operator_api::{CarrierChoice, CipherChoice, RecommendedTransport, TransferSession};
use sealane_types::{PeerName, SessionName, UnixSeconds};

use crate::advice::{Between, Figures, Rival, Standing, Transport, settle};
use crate::condition::time;
use crate::desired::{Preferred, Terms};
use crate::spec::{SessionShape, Valid};

/// What a status holds of a reason.
const REASON_CHARS_MAX: usize = 512;
/// Runs that a reason names.
const SOURCES_MAX: usize = 2;

/// What one session is to prefer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub transport: Option<Transport>,
    /// What its slowest pair of pools reaches, in 10^6 bytes a second.
    pub goodput: Option<u64>,
    pub reason: String,
    /// After this it is to be made again.
    pub until: Option<UnixSeconds>,
}

impl Choice {
    fn none(why: &str, terms: &Terms) -> Self {
        let reason = clip(format!("{why}; {}", otherwise(terms)));
        Self { transport: None, goodput: None, reason, until: None }
    }

    /// What sidecars are told to prefer: of what `terms` leave open, and not of what they name.
    #[must_use]
    pub fn preferred(&self, terms: &Terms) -> Preferred {
        let chosen = |is_open: bool| self.transport.filter(|_| is_open);
        Preferred {
            carrier: chosen(terms.carrier == CarrierChoice::Auto).map(|transport| transport.carrier),
            cipher: chosen(terms.cipher == CipherChoice::Auto).map(|transport| transport.cipher),
        }
    }

    /// As a status says it.
    #[must_use]
    pub fn told(&self) -> RecommendedTransport {
        RecommendedTransport {
            carrier: self.transport.map(|transport| transport.carrier.to_string()),
            cipher: self.transport.map(|transport| transport.cipher.to_string()),
            megabytes_per_second: self.goodput.and_then(|goodput| i64::try_from(goodput).ok()),
            reason: self.reason.clone(),
        }
    }
}

/// Choices of the sessions that leave one.
pub type Choices = BTreeMap<SessionName, Choice>;

/// What the pools are of the nodes on which a Peer's replicas run, or why not all of them are known.
type Pools<'a> = Result<Vec<&'a Arc<Figures>>, String>;

/// Whether a session leaves a choice to the cluster.
#[must_use]
pub fn is_open(carrier: CarrierChoice, cipher: CipherChoice) -> bool {
    carrier == CarrierChoice::Auto || cipher == CipherChoice::Auto
}

/// What happens where nothing is recommended.
fn otherwise(terms: &Terms) -> &'static str {
    match (terms.carrier, terms.cipher) {
        (CarrierChoice::Auto, CipherChoice::Auto) => {
            "each sidecar takes Tcp if the policy lists it, and chooses the cipher by its CPU"
        }
        (CarrierChoice::Auto, _) => "each sidecar takes Tcp if the policy lists it",
        _ => "each sidecar chooses the cipher by its CPU",
    }
}

/// Chooses for every session whose carrier or cipher is `Auto`.
#[must_use]
pub fn choose(valid: &Valid) -> Choices {
    let of_session = |name: &SessionName| {
        let session = valid.sessions.get(name)?;
        let object = valid.snapshot.sessions.get(session.index)?;
        let shape = session.shape.as_ref().ok()?;
        is_open(shape.terms.carrier, shape.terms.cipher).then_some((object, shape))
    };
    let open: Vec<_> = valid.sessions.keys().filter_map(|name| Some((name, of_session(name)?))).collect();
    let peers: BTreeSet<&PeerName> =
        open.iter().flat_map(|(_, (_, shape))| std::iter::once(&shape.from).chain(&shape.to)).collect();
    let pools: BTreeMap<&PeerName, Pools<'_>> =
        peers.into_iter().map(|peer| (peer, pools_of(valid, peer))).collect();
    let chosen = open.into_iter().filter_map(|(name, (object, shape))| {
        Some((name.clone(), of_session_choice(valid, object, shape, &pools)?))
    });
    chosen.collect()
}

/// `None` while nothing can be said yet.
fn of_session_choice(
    valid: &Valid,
    object: &TransferSession,
    shape: &SessionShape,
    pools: &BTreeMap<&PeerName, Pools<'_>>,
) -> Option<Choice> {
    let candidates = match permitted(valid, shape) {
        Ok(candidates) => candidates,
        Err(why) => return Some(Choice::none(&why, &shape.terms)),
    };
    let before = object.status.as_ref().and_then(|status| status.recommended.as_ref());
    let now =
        before.and_then(|before| Transport::read(before.carrier.as_deref()?, before.cipher.as_deref()?));
    let now = now.filter(|transport| candidates.contains(transport));
    if let [only] = candidates.as_slice() {
        let reason = clip(format!("it is the only one that spec and TrustPolicy `{}` permit", shape.policy));
        return Some(Choice { transport: Some(*only), goodput: None, reason, until: None });
    }
    match valid.snapshot.advice.standing() {
        Standing::Off => Some(Choice::none("this installation runs no Benchmarks", &shape.terms)),
        // What was recommended before this replica began to lead, if it is still permitted.
        Standing::Pending => {
            before.filter(|before| before.cipher.is_none() || now.is_some()).map(|before| Choice {
                transport: now,
                goodput: before.megabytes_per_second.and_then(|goodput| u64::try_from(goodput).ok()),
                reason: before.reason.clone(),
                until: None,
            })
        }
        Standing::Known => {
            let by_figures = by_figures(valid, shape, &candidates, now, pools);
            Some(by_figures.unwrap_or_else(|why| Choice::none(&why, &shape.terms)))
        }
    }
}

/// What policy and spec permit, in the order of preference: the operator's reading, which no sidecar relies on.
fn permitted(valid: &Valid, shape: &SessionShape) -> Result<Vec<Transport>, String> {
    let policy = valid.policies.get(shape.policy.as_str()).and_then(|policy| policy.verdict.as_ref().ok());
    let policy = policy.ok_or_else(|| format!("TrustPolicy `{}` is not verified", shape.policy))?;
    let floors = &policy.document().floors;
    let (carrier, cipher) = (shape.terms.carrier.named(), shape.terms.cipher.named());
    let asked = |one: &Transport| {
        carrier.map_or(one.is_open(), |named| one.carrier == named)
            && cipher.is_none_or(|named| one.cipher == named)
    };
    Ok(Transport::all()
        .filter(|one| {
            floors.ciphers.contains(&one.cipher) && floors.carriers.contains(&one.carrier) && asked(one)
        })
        .collect())
}

fn pools_of<'a>(valid: &'a Valid, peer: &PeerName) -> Pools<'a> {
    if valid.is_external(peer) {
        return Err(format!("replicas of Peer `{peer}` are outside of the cluster, where nobody measures"));
    }
    let mut found: Vec<&Arc<Figures>> = Vec::new();
    for pod in valid.pods_of(peer).filter(|pod| pod.is_wanted()) {
        let Some(node) = &pod.node else { continue };
        let figures = valid.snapshot.advice.of_node(node, valid.snapshot.now);
        let figures = figures.map_err(|stale| unknown(node, stale))?;
        if !found.iter().any(|known| Arc::ptr_eq(known, figures)) {
            found.push(figures);
        }
    }
    if found.is_empty() {
        return Err(format!("no replica of Peer `{peer}` has a node yet"));
    }
    Ok(found)
}

fn unknown(node: &str, stale: Option<&Arc<Figures>>) -> String {
    match stale {
        Some(stale) => format!("what is known of node `{node}` is stale: {}", source(stale)),
        None => format!("no Benchmark has measured the transports of node `{node}` or of its pool"),
    }
}

fn source(figures: &Figures) -> String {
    let Figures { benchmark, run, measured, .. } = figures;
    format!("Benchmark {benchmark}, run {run} of {}", time(*measured).0)
}

/// The transport whose slowest pair of pools is the fastest: one is chosen for the whole session, and who waits for the
/// slowest replica waits less.
fn by_figures(
    valid: &Valid,
    shape: &SessionShape,
    candidates: &[Transport],
    now: Option<Transport>,
    pools: &BTreeMap<&PeerName, Pools<'_>>,
) -> Result<Choice, String> {
    let of = |peer: &PeerName| {
        pools.get(peer).map_or_else(|| Ok(&[][..]), |pools| pools.as_deref().map_err(Clone::clone))
    };
    let from = of(&shape.from)?;
    let (advice, clock) = (&valid.snapshot.advice, valid.snapshot.now);
    let mut pairs: Vec<Between<'_>> = Vec::new();
    for peer in &shape.to {
        let to = of(peer)?;
        pairs.extend(
            from.iter()
                .flat_map(|from| to.iter().map(move |to| advice.between((from, to), candidates, clock))),
        );
    }
    let involved = || pairs.iter().flat_map(Between::figures);
    let default = *candidates.first().ok_or("nothing is permitted")?;
    let percent = involved().map(|figures| figures.hysteresis_percent).max().unwrap_or_default();
    let is_comparable =
        |one: &&Transport| one.carrier == default.carrier || pairs.iter().all(Between::is_of_network);
    let rivals: Vec<Rival> = candidates
        .iter()
        .filter(is_comparable)
        .filter_map(|transport| {
            let goodput = slowest(&pairs, *transport)?.0;
            Some(Rival { transport: *transport, goodput, bounds: None })
        })
        .collect();
    let Some(chosen) = settle(&rivals, now, default, percent) else {
        let missing = involved().find(|figures| !figures.transports.contains_key(&default));
        let pool = missing.map(|figures| figures.pool.as_str()).unwrap_or_default();
        return Err(format!(
            "{default} has no figure that counts in pool {pool}, so nothing is known to be better"
        ));
    };
    Ok(Choice {
        transport: Some(chosen.transport),
        goodput: Some(chosen.goodput),
        reason: reason(chosen, &rivals, &pairs, percent),
        until: pairs.iter().map(Between::valid_until).min(),
    })
}

/// What the slowest of `pairs` reaches, and which it is; `None` where one was not measured.
fn slowest<'a>(pairs: &[Between<'a>], transport: Transport) -> Option<(u64, Between<'a>)> {
    let all: Option<Vec<_>> = pairs.iter().map(|pair| Some((pair.goodput(transport)?, *pair))).collect();
    all?.into_iter().min_by_key(|(goodput, _)| *goodput)
}

fn reason(chosen: Rival, rivals: &[Rival], pairs: &[Between<'_>], percent: u32) -> String {
    let mut text = format!("{} reaches {} MB/s", chosen.transport, chosen.goodput);
    if let Some((_, Between { from, to, .. })) = slowest(pairs, chosen.transport) {
        text += &format!(" from pool {} to pool {}", from.pool, to.pool);
        if pairs.len() > 1 {
            text += &format!(", the slowest of {} pairs", pairs.len());
        }
    }
    for rival in rivals.iter().filter(|rival| rival.transport != chosen.transport) {
        text += &format!("; {} {} MB/s", rival.transport, rival.goodput);
    }
    if rivals.iter().any(|rival| rival.goodput > chosen.goodput) {
        text += &format!("; it stays, because none is better by {percent} %");
    }
    let sources: BTreeSet<String> = pairs.iter().flat_map(Between::figures).map(source).collect();
    sources.iter().take(SOURCES_MAX).for_each(|source| text += &format!("; {source}"));
    if let Some(more) = sources.len().checked_sub(SOURCES_MAX).filter(|more| *more > 0) {
        text += &format!("; and {more} other runs");
    }
    clip(text)
}

fn clip(text: String) -> String {
    text.chars().take(REASON_CHARS_MAX).collect()
}
