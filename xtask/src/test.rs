//! `cargo xtask test`: everything that decides whether a change is good, in one command and one summary.

mod case;
mod changed;
mod disk;
mod files;
mod load;
mod nextest;
mod plan;
mod processes;
mod python;
mod retry;
mod schedule;
mod skips;
mod stacks;
mod stages;
mod summary;
mod touched;

use std::{
    collections::BTreeSet,
    fs::File,
    io::Write,
    path::Path,
    process::Command,
    str::FromStr,
    time::{Instant, SystemTime},
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

pub(crate) use self::python::environment as python_environment;
use self::{
    changed::Selection,
    files::Files,
    load::Load,
    plan::Plan,
    stages::{STAGES, Stage},
    summary::Findings,
    touched::Touched,
};
use crate::{cluster, process, progress::print};

/// A part of the long suites, which can run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Every fuzzing target for a minute, led by coverage
    Fuzz,
    /// Each defence taken away, and a test that notices
    Removals,
    /// Real-time tests on one busy core, five times
    Load,
    /// Suites that take long: scale, torch, Benchmarks that judge speed, models with random seeds
    Long,
    /// New and changed tests, many times
    #[value(skip)]
    Gate,
}

/// What FULL names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Parts {
    named: Vec<Part>,
    /// FULL=1: all of them, and what every run has.
    all: bool,
}

impl Parts {
    /// A landing has a fixed seed; the long suites look elsewhere each time, and say where.
    fn seed(&self) -> Option<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let seed = (!self.named.is_empty()).then(|| now.as_secs().to_string())?;
        print(&format!("seed {seed}: {}={seed} repeats it", stages::SEED));
        Some(seed)
    }
}

impl FromStr for Parts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" | "0" => Ok(Self::default()),
            "1" => Ok(Self { named: Part::value_variants().to_vec(), all: true }),
            names => {
                let named = names.split(',').map(|name| Part::from_str(name, true));
                Ok(Self { named: named.collect::<Result<_, _>>()?, all: false })
            }
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// What a run covers.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Scope {
    /// Long suites: `1` for all of them beside the ordinary ones, or some alone: fuzz, removals, load, long
    #[arg(long, env = "FULL", value_name = "PARTS", default_value = "", hide_default_value = true)]
    full: Parts,
    /// Leave out what needs the local cluster
    #[arg(long)]
    without_cluster: bool,
    /// Only tests that can notice what differs from BASE [default: SEALANE_BASE, or origin/main; everything without either]
    #[arg(long, value_name = "BASE", num_args = 0..=1, require_equals = true)]
    changed: Option<Option<String>>,
    /// Run the tests that see time pass beside N burning threads for each core, all on one core, with stalls
    #[arg(long, value_name = "N")]
    under_load: Option<usize>,
    /// How often, each time with the next seed
    #[arg(long, default_value_t = 1, requires = "under_load")]
    times: u64,
    /// Decides when programs stand still
    #[arg(long, default_value_t = 1, requires = "under_load")]
    seed: u64,
    /// Say what a run would do and build, and do nothing
    #[arg(long)]
    plan: bool,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t, requires = "plan")]
    output: Output,
    /// Run one stage of a run that was begun
    #[arg(long, hide = true)]
    stage: Option<String>,
}

impl Scope {
    /// The stages to run, in their order.
    fn stages(&self) -> Vec<&'static Stage> {
        let Self { full, without_cluster, .. } = self;
        let wanted = |stage: &Stage| match stage.part {
            Some(part) => full.named.contains(&part),
            None => full.named.is_empty() || full.all,
        };
        let mut names: Vec<&str> = Vec::new();
        // What a stage needs stands before it.
        for stage in STAGES.iter().rev() {
            if wanted(stage) || stage.is_needed && names.contains(&stage.name) {
                names.push(stage.name);
                names.extend(stage.after);
            }
        }
        let chosen = |stage: &&Stage| wanted(stage) || stage.is_needed && names.contains(&stage.name);
        STAGES.iter().filter(chosen).filter(|stage| !(*without_cluster && stage.is_of_cluster)).collect()
    }
}

/// Runs every stage, also after a failure: one run tells all that is wrong.
///
/// # Errors
/// At least one stage that failed, too many flaky tests, or a test that was skipped and must not be; the summary tells.
pub fn run(root: &Path, scope: &Scope) -> Result<()> {
    if let Some(name) = &scope.stage {
        let stage = STAGES.iter().find(|stage| stage.name == name).context("there is no such stage")?;
        processes::end_with_parent();
        return (stage.work)(root, &Files::of(root, name));
    }
    if let Some(burners) = scope.under_load {
        Files::clear(root)?;
        nextest::build(root, &Files::of(root, stages::BUILD))?;
        return Load { burners, times: scope.times, seed: scope.seed }.run(root);
    }
    if scope.plan {
        let plan = Plan::of(root, &scope.stages())?;
        match scope.output {
            Output::Text => plan.print(),
            Output::Json => print(&serde_json::to_string_pretty(&plan)?),
        }
        return Ok(());
    }
    disk::make_room(root)?;
    let Some(base) = &scope.changed else {
        let environment = scope.full.seed().map(|seed| (stages::SEED, seed));
        judge(root, &scope.stages(), environment.as_slice())?;
        return scope.full.named.iter().try_for_each(|part| prove(root, *part));
    };
    let base = base.clone().or_else(|| changed::base(root));
    let selection = changed::selection(root, base.as_deref())?;
    let (stages, environment) = narrowed(scope.stages(), &selection);
    judge(root, &stages, &environment)
}

/// The quick check before a submission: everything but the cluster, as far as a change can break it, and what is new
/// in tests ten times.
///
/// # Errors
/// As [`run`].
pub fn gate(root: &Path) -> Result<()> {
    disk::make_room(root)?;
    let base = changed::base(root);
    let selection = changed::selection(root, base.as_deref())?;
    let full = Parts { named: vec![Part::Gate], all: true };
    let scope = Scope { full, without_cluster: true, ..Scope::default() };
    let (stages, mut environment) = narrowed(scope.stages(), &selection);
    let touched = base.map(|base| Touched::since(root, &base)).transpose()?.unwrap_or_default();
    let words = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(" ");
    environment.extend([(nextest::TOUCHED, words(touched.rust)), (python::TOUCHED, words(touched.python))]);
    judge(root, &stages, &environment)?;
    print(&format!("gate: green for {}", tree(root)?));
    Ok(())
}

/// Keeps what a part of the long suites proved: an issue may run them one at a time.
fn prove(root: &Path, part: Part) -> Result<()> {
    let part = part.to_possible_value().map(|value| value.get_name().to_owned());
    let date = process::text(Command::new("date").args(["--utc", "--iso-8601=seconds"]))?;
    let line = serde_json::json!({ "part": part, "tree": tree(root)?, "date": date.trim() }).to_string();
    print(&format!("proved: {line}"));
    let path = cluster::cache_folder()?.join("proved.jsonl");
    let file = File::options().create(true).append(true).open(&path);
    writeln!(file.with_context(|| format!("opening {}", path.display()))?, "{line}")
        .context("keeping what was proved")
}

/// Of `stages` those that can notice a change, and what the others of them are told about it.
fn narrowed(
    mut stages: Vec<&'static Stage>,
    selection: &Selection,
) -> (Vec<&'static Stage>, Vec<(&'static str, String)>) {
    let filter = selection.filter();
    stages.retain(|stage| match stage.name {
        stages::RUST | stages::UDP => filter.is_some(),
        stages::PYTHON => selection.python,
        stages::CHART => selection.chart,
        _ => true,
    });
    (stages, filter.into_iter().map(|filter| (nextest::FILTER, filter)).collect())
}

/// The content of the work tree, as git names it; files that git does not know do not count.
fn tree(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| process::text(Command::new("git").args(arguments).current_dir(root));
    let stash = git(&["stash", "create"])?;
    let commit = if stash.trim().is_empty() { "HEAD" } else { stash.trim() };
    Ok(git(&["rev-parse", &format!("{commit}^{{tree}}")])?.trim().to_owned())
}

/// Runs the stages, looks again at what failed, and says what came of it.
fn judge(root: &Path, stages: &[&'static Stage], environment: &[(&str, String)]) -> Result<()> {
    let started = Instant::now();
    Files::clear(root)?;
    let mut stages = schedule::run(root, stages, environment)?;
    let mut cases = Vec::new();
    for ended in &stages {
        let name = ended.stage.name;
        cases.extend(case::read(&Files::of(root, name).events())?.into_iter().map(|case| (name, case)));
    }
    retry::failed(root, &mut stages, &mut cases)?;
    let files = Files::of(root, "");
    let skips = skips::noted(&files.skips())?;
    let troubles = skips::troubles(root, &skips)?;
    let mut findings = Findings { stages, cases, skips, troubles };
    let flaky = retry::troubles(root, findings.flaky().map(|(_, case)| case));
    findings.troubles.extend(flaky);
    findings.write_junit(&files.junit())?;
    findings.print(root, started.elapsed().as_secs_f64());
    let failed = findings.stages.iter().filter(|ended| ended.result.is_err()).count();
    if failed > 0 || !findings.troubles.is_empty() {
        bail!("{failed} stage(s) failed, {} other trouble(s)", findings.troubles.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(full: &str, without_cluster: bool) -> Vec<&'static str> {
        let scope = Scope { full: full.parse().unwrap(), without_cluster, ..Scope::default() };
        scope.stages().iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn a_part_alone_runs_with_what_it_needs() {
        assert_eq!(names("fuzz", false), ["build", "fuzzing, a minute a target"]);
        assert!(names("long", false).contains(&"images, chart installed"));
        assert!(!names("long", false).contains(&"clippy"));
        let all = names("1", false);
        assert_eq!(all.len(), STAGES.len() - 1, "all but what only a gate does");
        assert!(!names("", false).contains(&"removals") && names("", false).contains(&"clippy"));
        assert!(names("", true).contains(&"Rust") && !names("", true).contains(&"cluster"));
        assert!("fuz".parse::<Parts>().is_err());
    }
}
