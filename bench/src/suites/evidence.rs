//! One verification of each platform's evidence, and a thousand peers that prove themselves at once.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sealane_attestation::{Anchor, Collateral, Evidence, Format, Rejection, TdxCollateral, inspect};
use sealane_simulated::Platform as Chip;
use sealane_simulated::forge::{Authority, Dates, Recipe};
use sealane_types::{Product, UnixSeconds};

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Sample, Series};
use crate::fleet::{Fleet, QUOTE_TAKES};
use crate::plan::{Level, Suite};
use crate::row::{Better, RowId, Subject, Unit};
use crate::stranger::raise_file_limit;
use crate::world::World;

/// Microseconds that one verification may take.
const SNP_LIMIT: f64 = 300.0;
const TDX_LIMIT: f64 = 600.0;
const NITRO_LIMIT: f64 = 1_000.0;
/// Seconds in which all of a fleet have to be established.
const FLEET_LIMIT: f64 = 3.0;
const FLEET: u32 = 1_000;
/// Files beside connections.
const FILES_SPARE: u64 = 200;

const TDX_QUOTE: &[u8] = include_bytes!("../../../protocol/attestation/tests/tdx/v5-td15ex.quote");
const TDX_COLLATERAL: &[u8] =
    include_bytes!("../../../protocol/attestation/tests/tdx/v5-td15ex.collateral.json");
const TDX_TIME: UnixSeconds = UnixSeconds(1_792_454_400);
const NITRO_DOCUMENT: &[u8] = include_bytes!("../../../protocol/attestation/tests/nitro/prod-2025.cbor");
const NITRO_TIME: UnixSeconds = UnixSeconds(1_736_179_680);

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    verifications(bench)?;
    let id = RowId::new("quotes", FLEET);
    if bench.wants_any([&id]) { fleet(bench, id) } else { Ok(()) }
}

/// Evidence, what it is verified with, and when.
struct Case {
    evidence: Evidence,
    collateral: Collateral,
    now: UnixSeconds,
}

impl Case {
    /// In AMD's form down to RSA-4096 and PSS, under keys of this run: no genuine report that may be carried here has a list
    /// of revocations that is still in force.
    fn snp(now: UnixSeconds) -> Result<Self> {
        let authority = Authority::generate()?;
        let recipe = Recipe { marked: false, ..Recipe::new(Product::Genoa)? };
        let material = authority.issue(&recipe)?;
        let [_, ask, ark] = material.certificates();
        let from = std::time::Duration::from_secs(now.0);
        let dates = Dates { from, until: from.saturating_mul(2) };
        let list = authority.revocation_list(&recipe, dates, false)?;
        let anchor = Anchor::new(ark, ask)?.with_revocation_list(&list)?;
        let quote = Chip::new(material, None)?.quote([7; 64])?;
        let evidence =
            Evidence { format: Format::SevSnp, report: quote.report, certificates: quote.certificates };
        Ok(Self { evidence, collateral: Collateral::empty().with_anchor(anchor), now })
    }

    fn tdx() -> Result<Self> {
        let tdx = TdxCollateral::from_json(TDX_COLLATERAL).map_err(refused)?;
        Ok(Self {
            evidence: Evidence { format: Format::Tdx, report: TDX_QUOTE.to_vec(), certificates: vec![] },
            collateral: Collateral::empty().with_tdx(tdx),
            now: TDX_TIME,
        })
    }

    fn nitro() -> Self {
        Self {
            evidence: Evidence {
                format: Format::Nitro,
                report: NITRO_DOCUMENT.to_vec(),
                certificates: vec![],
            },
            collateral: Collateral::builtin(),
            now: NITRO_TIME,
        }
    }

    /// Microseconds of `count` verifications. What a root signed is known from the first one on.
    fn block(&self, count: usize) -> Sample {
        let mut wrong = None;
        let latencies = (0..count)
            .map(|_| {
                let began = Instant::now();
                let verdict = inspect(&self.evidence, &self.collateral, self.now);
                let took = began.elapsed().as_secs_f64() * 1e6;
                wrong = wrong.take().or(verdict.err().map(|rejection| rejection.to_string()));
                took
            })
            .collect();
        Sample::of_latencies(latencies, wrong)
    }
}

fn refused(rejection: Rejection) -> anyhow::Error {
    anyhow::anyhow!("collateral of this measurement: {rejection}")
}

fn verifications(bench: &mut Bench<'_>) -> Ran {
    let ids = ["snp", "tdx", "nitro"].map(|case| RowId::new("verify", case));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    let [snp_id, tdx_id, nitro_id] = ids;
    bench.measuring(&snp_id);
    let world_now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let (snp, tdx, nitro) = (Case::snp(UnixSeconds(world_now))?, Case::tdx()?, Case::nitro());
    let (plan, count) = (bench.plan, bench.plan.handshakes);
    let contest = Contest::hold(
        plan.warmups,
        plan.rounds,
        [
            Box::new(|| Ok(snp.block(count))),
            Box::new(|| Ok(tdx.block(count))),
            Box::new(|| Ok(nitro.block(count))),
        ],
    )?;
    let notes = [
        "report, VCEK, ASK, ARK and revocation list; the two signatures of the ARK are known, as they are after a \
         product's first chip, and nothing of the chip is. Under keys of this run in AMD's form",
        "quote v5 of TD 1.5, PCK chain, TCB info, QE identity and both revocation lists, nothing known before",
        "COSE document and its chain of five; the root's signature of its region is known",
    ];
    let names = ["one verification of SEV-SNP", "one verification of TDX", "one verification of Nitro"];
    let rows = [(snp_id, SNP_LIMIT), (tdx_id, TDX_LIMIT), (nitro_id, NITRO_LIMIT)];
    for (((id, limit), series), (name, note)) in
        rows.into_iter().zip(&contest.series).zip(names.into_iter().zip(notes))
    {
        let caption = caption(id, name.to_owned(), Unit::Microseconds, limit, note.to_owned());
        bench.row(caption.row(series, None, &contest.control));
    }
    Ok(())
}

/// Every peer has a static key and a quoter of its own; one sidecar serves them all.
fn fleet(bench: &mut Bench<'_>, id: RowId) -> Ran {
    bench.measuring(&id);
    let (size, rounds) = match bench.plan.level {
        Level::Smoke => (20, 1),
        Level::Quick => (FLEET, 5),
        Level::Full => (FLEET, 11),
    };
    // Both ends of every connection are in this process; containers often begin with 1,024 files.
    raise_file_limit(2 * u64::from(size) + FILES_SPARE);
    let world = World::new(false)?;
    let mut quotes = Vec::new();
    let mut series = Series::default();
    let mut control = Vec::new();
    for _ in 0..rounds {
        let Contest { series: [one], control: work } = Contest::hold(
            0,
            1,
            [Box::new(|| {
                let arrived =
                    Fleet::new(&world, size, QUOTE_TAKES)?.arrive().context("a fleet that proves itself")?;
                if arrived.established != size {
                    bail!("{} of {size} were established", arrived.established);
                }
                quotes.push(arrived.quotes);
                Ok(Sample { value: arrived.took.as_secs_f64(), ..Sample::default() })
            })],
        )?;
        series.values.extend(one.values);
        control.extend(work);
    }
    quotes.sort_unstable();
    let note = format!(
        "real connections over loopback to one real sidecar; every quote takes {} ms, at one platform one at a time; the \
         sidecar made {} to {} quotes for them all",
        QUOTE_TAKES.as_millis(),
        quotes.first().copied().unwrap_or_default(),
        quotes.last().copied().unwrap_or_default(),
    );
    let name = format!("{size} peers with a slow platform each, until all are established");
    bench.row(caption(id, name, Unit::Seconds, FLEET_LIMIT, note).row(&series, None, &control));
    Ok(())
}

fn caption(id: RowId, name: String, unit: Unit, limit: f64, note: String) -> Caption {
    Caption {
        id,
        suite: Suite::Evidence.word(),
        name,
        unit,
        better: Better::Lower,
        peer: None,
        limits: vec![(Subject::Ours, limit)],
        doubt: None,
        note,
    }
}
