//! Large tensors: how fast, and what of the processors they cost, beside everything that a user could take in place of a lane.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::rivals::{Rival, lacks_library};
use crate::bench::{Bench, Programs, Ran};
use crate::contest::{Caption, Contender, Contest, Sample, Series, hold_all};
use crate::ends::{Done, Ends};
use crate::plan::Suite;
use crate::programs::{Material, Route, Sidecars, Task};
use crate::row::{Better, Missing, RowId, Subject, Unit};
use crate::statistics::median;
use crate::suites::floor::{self, floor};

/// Bytes of a tensor.
const CASES: [usize; 2] = [1_048_576, 8_388_608];
/// Messages of a first burst that is timed, to see how many make a sample.
const FIRST: u64 = 8;
const SPEED: &str = "until the last tensor was taken and looked at; all processes share this machine's cores with the network";
const PROCESSOR: &str = "all clients and what lies between them, without what the network does by itself";

/// How tensors come into a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    /// Copied by `put`.
    Copied,
    /// Computed in the lane's memory.
    InPlace,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Speed,
    Processor,
}

/// Whom it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    Rival(Rival),
    /// The fastest of what Python programs can take that shall not send in the clear.
    BestSealed,
    /// Plain TCP, and nothing but the cipher beside it.
    Floor,
}

/// One row.
#[derive(Debug, Clone, Copy)]
struct Claim {
    put: Put,
    figure: Figure,
    against: Against,
    /// What the ratio has to be.
    limit: Option<f64>,
}

impl Claim {
    const fn new(put: Put, figure: Figure, against: Against, limit: Option<f64>) -> Self {
        Self { put, figure, against, limit }
    }

    /// Whether its row has something of this one.
    fn needs(self, rival: Rival) -> bool {
        match self.against {
            Against::Rival(one) => one == rival,
            Against::BestSealed => Rival::SEALED_PYTHON.contains(&rival),
            Against::Floor => rival == Rival::Tcp,
        }
    }

    fn id(self, bytes: usize) -> RowId {
        let family = match (self.put, self.figure, self.against) {
            (Put::Copied, _, Against::Floor) => "lane-floor",
            (Put::InPlace, _, Against::Floor) => "lane-empty-floor",
            (Put::Copied, Figure::Speed, _) => "lane",
            (Put::Copied, Figure::Processor, Against::Rival(Rival::Tcp)) => {
                return RowId::new("lane", format!("{bytes}-cpu"));
            }
            (Put::Copied, Figure::Processor, _) => "lane-cpu",
            (Put::InPlace, Figure::Speed, _) => "lane-empty",
            (Put::InPlace, Figure::Processor, _) => "lane-empty-cpu",
        };
        match self.against {
            Against::Rival(rival) => RowId::new(family, bytes).beside(rival.word()),
            Against::BestSealed => RowId::new(family, bytes).beside("best-sealed"),
            Against::Floor => RowId::new(family, bytes),
        }
    }
}

/// The rows of tensors of one size.
fn claims() -> Vec<Claim> {
    use Figure::{Processor, Speed};
    use Put::{Copied, InPlace};
    let rival = Against::Rival;
    let mut claims = vec![
        Claim::new(Copied, Speed, rival(Rival::Tcp), Some(0.30)),
        Claim::new(Copied, Processor, rival(Rival::Tcp), None),
        Claim::new(Copied, Speed, Against::BestSealed, Some(1.3)),
        Claim::new(Copied, Processor, Against::Floor, Some(0.55)),
        Claim::new(InPlace, Speed, rival(Rival::Tcp), Some(0.37)),
        Claim::new(InPlace, Speed, Against::BestSealed, Some(1.6)),
        Claim::new(InPlace, Processor, rival(Rival::Ssl), Some(2.0)),
        Claim::new(InPlace, Processor, Against::Floor, Some(0.6)),
    ];
    for sealed in Rival::ALL.into_iter().filter(|rival| *rival != Rival::Tcp) {
        let (speed, processor) = match sealed {
            Rival::Ssl => (None, Some(1.67)),
            Rival::Haproxy => (Some(1.8), Some(2.5)),
            _ => (None, None),
        };
        claims.push(Claim::new(Copied, Speed, rival(sealed), speed));
        claims.push(Claim::new(Copied, Processor, rival(sealed), processor));
    }
    claims
}

pub(super) fn ids() -> Vec<RowId> {
    CASES.into_iter().flat_map(|bytes| claims().into_iter().map(move |claim| claim.id(bytes))).collect()
}

pub(super) fn default_ids() -> [RowId; CASES.len()] {
    CASES.map(|bytes| RowId::new("lane-default", bytes).beside(Rival::Tcp.word()))
}

pub(super) fn run(bench: &mut Bench<'_>, route: &Route, sidecars: &Sidecars, lane: &Ends<'_>) -> Ran {
    let selection = bench.selection.clone();
    let wanted = |bytes: usize| -> Vec<Claim> {
        claims().into_iter().filter(|claim| selection.wants(&claim.id(bytes))).collect()
    };
    let all: Vec<_> = CASES.into_iter().flat_map(wanted).collect();
    if all.is_empty() {
        return Ok(());
    }
    let programs = bench.programs.clone();
    let is_in_place = |claim: &Claim| claim.put == Put::InPlace;
    let wants_in_place = all.iter().any(is_in_place);
    let lacks = if wants_in_place { lacks_library(&programs, "numpy", "numpy") } else { None };
    let in_place = match lacks {
        None if wants_in_place => Some(Ends::in_place(&programs, route, sidecars)?),
        _ => None,
    };
    let field = Field::new(&programs, route, &all)?;
    for bytes in CASES {
        let can = |claim: &Claim| field.has(*claim) && (in_place.is_some() || !is_in_place(claim));
        let (wanted, absent): (Vec<_>, Vec<_>) = wanted(bytes).into_iter().partition(can);
        for claim in absent {
            let why = field.why_not(claim).or_else(|| lacks.clone()).unwrap_or_default();
            bench.missing(Missing::new(&claim.id(bytes).0, why));
        }
        let Some(first) = wanted.first() else { continue };
        bench.measuring(&first.id(bytes));
        let contest = Held::hold(bench, bytes, (lane, in_place.as_ref()), &field)?;
        for claim in wanted {
            contest.row(bench, claim, &route.note)?;
        }
    }
    Ok(())
}

/// The rivals that are wanted and that this machine has, connected.
struct Field {
    present: Vec<(Rival, Ends<'static>)>,
    absent: Vec<(Rival, String)>,
}

impl Field {
    fn new(programs: &Programs, route: &Route, claims: &[Claim]) -> Result<Self> {
        let material = Material::new(route)?;
        let (mut present, mut absent) = (Vec::new(), Vec::new());
        for rival in Rival::ALL.into_iter().filter(|rival| claims.iter().any(|claim| claim.needs(*rival))) {
            match rival.lacks(programs) {
                Some(why) => absent.push((rival, why)),
                None => present.push((rival, rival.start(programs, route, &material)?)),
            }
        }
        Ok(Self { present, absent })
    }

    fn has(&self, claim: Claim) -> bool {
        self.why_not(claim).is_none()
    }

    fn why_not(&self, claim: Claim) -> Option<String> {
        let Against::Rival(wanted) = claim.against else { return None };
        self.absent.iter().find(|(rival, _)| *rival == wanted).map(|(_, why)| why.clone())
    }

    fn words(&self, wanted: Rival) -> &str {
        self.present.iter().find(|(rival, _)| *rival == wanted).map_or("", |(_, ends)| ends.words.as_str())
    }
}

/// What bursts of one size showed of everybody.
struct Held<'a> {
    bytes: usize,
    field: &'a Field,
    lane: Measured,
    in_place: Option<Measured>,
    rivals: Vec<(Rival, Measured)>,
    /// Of the cipher alone.
    records: Series,
    control: Vec<f64>,
}

/// Both figures of one contender.
struct Measured {
    speed: Series,
    processor: Series,
}

impl<'a> Held<'a> {
    fn hold(
        bench: &Bench<'_>,
        bytes: usize,
        (lane, in_place): (&Ends<'_>, Option<&Ends<'_>>),
        field: &'a Field,
    ) -> Result<Self> {
        let target = bench.plan.lane_sample;
        let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
        let ends =
            [Some(lane), in_place].into_iter().flatten().chain(field.present.iter().map(|(_, ends)| ends));
        let bursts: Vec<_> = ends.map(|ends| Burst::new(ends, bytes, target)).collect::<Result<_>>()?;
        let cipher = floor::cipher(bench.plan.micro)?;
        let mut contenders: Vec<_> = bursts.iter().map(Burst::contender).collect();
        contenders.push(cipher.contender());
        let (mut series, control) = hold_all(warmups, rounds, contenders)?;
        let records = series.pop().context("a contender without a series")?;
        let measured = series.into_iter().zip(&bursts);
        let mut measured = measured.map(|(speed, burst)| {
            let processor = Series { wrong: speed.wrong.clone(), ..burst.processor_series(rounds) };
            Measured { speed, processor }
        });
        let lane = measured.next().context("a lane without a series")?;
        let in_place = in_place.and_then(|_| measured.next());
        let rivals = field.present.iter().map(|(rival, _)| *rival).zip(measured).collect();
        Ok(Self { bytes, field, lane, in_place, rivals, records, control })
    }

    fn row(&self, bench: &mut Bench<'_>, claim: Claim, path: &str) -> Ran {
        let Self { bytes, field, lane, in_place, control, .. } = self;
        let (ours, how) = match claim.put {
            Put::Copied => (lane, "put by a Python client"),
            Put::InPlace => {
                (in_place.as_ref().context("no client puts in place")?, "that lie in a lane's memory")
            }
        };
        let (theirs, peer, words) = match claim.against {
            Against::Rival(rival) => {
                (self.rival(rival, claim.figure)?.clone(), rival.title(), field.words(rival))
            }
            Against::BestSealed => {
                let best = self.best_sealed().context("no sealed rival")?;
                (self.rival(best, Figure::Speed)?.clone(), best.title(), field.words(best))
            }
            Against::Floor => {
                let plain = self.rival(Rival::Tcp, Figure::Processor)?;
                (
                    floor(plain, &self.records),
                    "plain TCP, and 64 KiB sealed and opened in place beside it",
                    "",
                )
            }
        };
        let (ours, unit, better, means) = match claim.figure {
            Figure::Speed => (&ours.speed, Unit::GigabytesPerSecond, Better::Higher, SPEED),
            Figure::Processor => (&ours.processor, Unit::NanosecondsPerByte, Better::Lower, PROCESSOR),
        };
        let what = match claim.figure {
            Figure::Speed => "from one client to another through two sidecars",
            Figure::Processor => "through two sidecars: time that all processes use of all cores for a byte",
        };
        let caption = Caption {
            id: claim.id(*bytes),
            suite: Suite::Lane.word(),
            name: format!("tensors of {bytes} B {how}, {what}"),
            unit,
            better,
            peer: Some(peer.to_owned()),
            limits: claim.limit.map(|limit| (Subject::Ratio, limit)).into_iter().collect(),
            doubt: None,
            note: [path, means, words]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
        };
        bench.row(caption.row(ours, Some(&theirs), control));
        Ok(())
    }

    fn rival(&self, wanted: Rival, figure: Figure) -> Result<&Series> {
        let found = self.rivals.iter().find(|(rival, _)| *rival == wanted);
        let (_, measured) = found.with_context(|| format!("{} was not measured", wanted.word()))?;
        Ok(match figure {
            Figure::Speed => &measured.speed,
            Figure::Processor => &measured.processor,
        })
    }

    /// The sealed way that was fastest in the middle.
    fn best_sealed(&self) -> Option<Rival> {
        let sealed = self.rivals.iter().filter(|(rival, _)| Rival::SEALED_PYTHON.contains(rival));
        let middles = sealed.filter_map(|(rival, measured)| Some((*rival, median(&measured.speed.values)?)));
        middles.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(rival, _)| rival)
    }
}

/// Under the node's own congestion control, beside plain TCP alone.
pub(super) fn run_default(bench: &mut Bench<'_>, route: &Route, lane: &Ends<'_>) -> Ran {
    let plain = Ends::plain(&bench.programs, route)?;
    for (bytes, id) in CASES.into_iter().zip(default_ids()) {
        if !bench.wants_any([&id]) {
            continue;
        }
        bench.measuring(&id);
        let burst = |ends| Burst::new(ends, bytes, bench.plan.lane_sample);
        let (ours, theirs) = (burst(lane)?, burst(&plain)?);
        let contest =
            Contest::hold(bench.plan.warmups, bench.plan.rounds, [ours.contender(), theirs.contender()])?;
        let [ours, theirs] = &contest.series;
        let caption = Caption {
            id,
            suite: Suite::Lane.word(),
            name: format!(
                "tensors of {bytes} B put by a Python client, under the node's own congestion control"
            ),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            peer: Some(Rival::Tcp.title().to_owned()),
            limits: Vec::new(),
            doubt: None,
            note: format!("{}; {SPEED}", route.note),
        };
        bench.row(caption.row(ours, Some(theirs), &contest.control));
    }
    Ok(())
}

/// Bursts of about the wanted duration.
struct Burst<'a> {
    ends: &'a Ends<'a>,
    task: Task,
    /// What the first burst, of which every byte was compared, showed.
    wrong: RefCell<Option<String>>,
    /// Nanoseconds per byte of every burst so far.
    processor: RefCell<Vec<f64>>,
}

impl<'a> Burst<'a> {
    fn new(ends: &'a Ends<'a>, bytes: usize, target: Duration) -> Result<Self> {
        let wrong = ends.thorough(bytes)?;
        let mut task = Task { bytes, count: FIRST, ..Task::default() };
        task.count = (FIRST as f64 * ends.times(task, target)?) as u64;
        Ok(Self { ends, task, wrong: RefCell::new(wrong), processor: RefCell::default() })
    }

    fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let Done { seconds, processor_seconds, wrong, .. } = self.ends.follow(self.task)?;
            let bytes = self.task.bytes as f64 * self.task.count as f64;
            self.processor.borrow_mut().push(processor_seconds * 1e9 / bytes);
            let wrong = self.wrong.borrow_mut().take().or(wrong);
            Ok(Sample { value: bytes / 1e9 / seconds, latencies: Vec::new(), wrong })
        })
    }

    /// What the last `rounds` bursts used.
    fn processor_series(&self, rounds: usize) -> Series {
        Series::of_last(rounds, self.processor.take())
    }
}
