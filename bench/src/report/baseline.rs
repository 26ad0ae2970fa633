//! An earlier report, and what became better or worse since.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use schemars::JsonSchema;
use sealane_results::{Change, Comparison, Line, compare};
use serde::{Deserialize, Serialize};

use super::{Report, VERSION};
use crate::plan::Level;
use crate::result::line;
use crate::row::{Better, RowId, Unit};
use crate::statistics::Interval;

/// Differences up to here count as none; the same as where a Benchmark does not say.
const TOLERANCE_PERCENT: f64 = 10.0;

/// A report that was kept, as much of it as is compared. Reports of later releases may say more.
#[derive(Debug, Clone)]
pub struct Stored {
    file: String,
    kept: Kept,
}

#[derive(Debug, Clone, Deserialize)]
struct Kept {
    version: u32,
    level: Level,
    began: String,
    machine: KeptMachine,
    build: KeptBuild,
    rows: Vec<KeptRow>,
}

#[derive(Debug, Clone, Deserialize)]
struct KeptMachine {
    cpu: String,
    architecture: String,
    cores: u64,
    features: Vec<String>,
    kernel: String,
}

#[derive(Debug, Clone, Deserialize)]
struct KeptBuild {
    version: String,
    commit: String,
    profile: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptRow {
    id: RowId,
    unit: Unit,
    better: Better,
    ours: f64,
    ours_interval: Option<Interval>,
    correct: bool,
    noisy: bool,
}

/// What a report says of an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Baseline {
    /// Where it was read from; a later report may lie there by now.
    pub file: String,
    pub began: String,
    pub cpu: String,
    pub kernel: String,
    /// Version, commit and profile of its programs.
    pub build: String,
    pub level: Level,
    /// Differences up to here count as none.
    pub tolerance_percent: f64,
    /// Why nothing is compared: speed is only where machine, level and kind of build are the same.
    pub unlike: Vec<String>,
    /// Rows that both have. None where they are unlike.
    pub rows: Vec<Comparison>,
    /// Rows that the earlier one alone has.
    pub gone: Vec<RowId>,
}

impl Stored {
    /// # Errors
    /// A file that cannot be read, or holds no report of this form.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("reading {file}"))?;
        let kept: Kept = serde_json::from_str(&text).with_context(|| format!("{file} holds no report"))?;
        ensure!(kept.version == VERSION, "{file} is of version {}, not {VERSION}", kept.version);
        Ok(Self { file, kept })
    }

    #[must_use]
    pub fn began(&self) -> &str {
        &self.kept.began
    }
}

impl Baseline {
    pub(super) fn new(stored: &Stored, report: &Report) -> Self {
        let Stored { file, kept } = stored;
        let unlike = unlike(kept, report);
        let before: Vec<Line> = kept.rows.iter().map(KeptRow::line).collect();
        let after: Vec<Line> = report.rows.iter().map(line).filter(Line::is_comparable).collect();
        let rows = if unlike.is_empty() { compare(&before, &after, TOLERANCE_PERCENT) } else { Vec::new() };
        let measured = |id: &RowId| report.rows.iter().any(|row| row.id == *id);
        let KeptBuild { version, commit, profile } = &kept.build;
        Self {
            file: file.clone(),
            began: kept.began.clone(),
            cpu: kept.machine.cpu.clone(),
            kernel: kept.machine.kernel.clone(),
            build: format!("{version} {commit} {profile}"),
            level: kept.level,
            tolerance_percent: TOLERANCE_PERCENT,
            unlike,
            rows,
            gone: before.into_iter().map(|line| line.id).filter(|id| !measured(id)).collect(),
        }
    }

    pub(super) fn count(&self, change: Change) -> usize {
        self.rows.iter().filter(|row| row.change == change).count()
    }
}

impl KeptRow {
    fn line(&self) -> Line {
        let Self { id, unit, better, ours, ours_interval, correct, noisy } = self.clone();
        Line { id, unit, better, ours, bounds: ours_interval, ratio: None, verdict: None, correct, noisy }
    }
}

fn unlike(kept: &Kept, report: &Report) -> Vec<String> {
    let (was, is) = (&kept.machine, &report.machine);
    let level = |level: Level| level.word().to_owned();
    let facts = [
        ("CPU", was.cpu.clone(), is.cpu.clone()),
        ("architecture", was.architecture.clone(), is.architecture.clone()),
        ("number of cores", was.cores.to_string(), is.cores.to_string()),
        ("set of instructions", was.features.join(" "), is.features.join(" ")),
        ("kernel", was.kernel.clone(), is.kernel.clone()),
        ("level", level(kept.level), level(report.level)),
        ("build profile", kept.build.profile.clone(), report.build.profile.clone()),
    ];
    let others = facts.into_iter().filter(|(_, was, is)| was != is);
    let mut unlike: Vec<_> =
        others.map(|(what, was, is)| format!("another {what}: {was}, then {is}")).collect();
    if kept.level == Level::Smoke && report.level == Level::Smoke {
        unlike.push("figures of smoke runs mean nothing".to_owned());
    }
    unlike
}
