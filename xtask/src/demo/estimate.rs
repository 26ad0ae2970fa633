//! How long the demo will still take: what each part took on this machine the last time, or takes on one like it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::{Context, Result};

use crate::cluster;

/// A part of the demo, in the order in which they begin. [`Self::Programs`] goes on beside the two that come first, on
/// the same cores; the others follow one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Packages,
    Kubernetes,
    Programs,
    Cluster,
    Images,
    Chart,
    Job,
}

const PARTS: [Part; 7] =
    [Part::Kubernetes, Part::Programs, Part::Packages, Part::Cluster, Part::Images, Part::Chart, Part::Job];

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Programs => "programs",
            Self::Packages => "packages",
            Self::Cluster => "cluster",
            Self::Images => "images",
            Self::Chart => "chart",
            Self::Job => "job",
        }
    }

    /// Seconds on two cores that nobody else uses, the first time and later.
    const fn usual(self, first: bool) -> f64 {
        match (self, first) {
            (Self::Kubernetes, true) => 480.0,
            (Self::Programs, true) => 480.0,
            (Self::Packages, true) => 60.0,
            (Self::Programs, false) => 20.0,
            (Self::Kubernetes | Self::Packages, false) => 2.0,
            (Self::Cluster, _) => 10.0,
            (Self::Images, true) => 20.0,
            (Self::Images, false) => 5.0,
            (Self::Chart, _) => 15.0,
            (Self::Job, _) => 45.0,
        }
    }

    /// Whether nothing is there yet of what this part makes.
    fn is_first(self, root: &Path, cache: &Path) -> Result<bool> {
        Ok(match self {
            Self::Kubernetes => !cluster::is_prepared()?,
            Self::Programs => !root.join("target/debug/sealane-operator").exists(),
            Self::Packages | Self::Images => !cache.join("images/trees").exists(),
            Self::Cluster | Self::Chart | Self::Job => false,
        })
    }
}

/// What is known of a part in this run.
#[derive(Debug, Clone, Copy)]
struct Course {
    part: Part,
    first: bool,
    begun: Option<Instant>,
    /// Seconds that it took.
    took: Option<f64>,
    /// How much of it is done, from 0 to 1, where it says so.
    done: f64,
}

/// The parts of this run, and the seconds of the last one.
#[derive(Debug)]
pub(super) struct Estimate {
    file: PathBuf,
    /// By [`key`].
    last: BTreeMap<String, f64>,
    courses: Mutex<Vec<Course>>,
}

impl Estimate {
    /// `cache` is the folder where the last run is remembered.
    pub(super) fn read(root: &Path, cache: &Path) -> Result<Self> {
        let file = cache.join("demo/seconds.json");
        // Without a last run, or with one that cannot be read, the usual figures do.
        let last = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let course = |part: Part| {
            Ok(Course { part, first: part.is_first(root, cache)?, begun: None, took: None, done: 0.0 })
        };
        let courses = PARTS.into_iter().map(course).collect::<Result<_>>()?;
        Ok(Self { file, last: last.unwrap_or_default(), courses: Mutex::new(courses) })
    }

    /// Does a part's work.
    pub(super) fn measure<T>(&self, part: Part, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        self.update(part, |course| course.begun = Some(begun));
        let result = work()?;
        self.update(part, |course| course.took = Some(begun.elapsed().as_secs_f64()));
        Ok(result)
    }

    /// A part says how much of it is done.
    pub(super) fn advance(&self, part: Part, done: f64) {
        self.update(part, |course| course.done = done);
    }

    /// `about 7 minutes left`.
    pub(super) fn left(&self) -> String {
        match (self.seconds_left() / 60.0).round() {
            ..1.0 => "less than a minute left".to_owned(),
            1.0 => "about 1 minute left".to_owned(),
            minutes => format!("about {minutes} minutes left"),
        }
    }

    /// Remembers what this run took for the next one.
    pub(super) fn remember(&self) -> Result<()> {
        let mut seconds = self.last.clone();
        for course in self.courses().iter() {
            seconds.extend(course.took.map(|took| (key(course.part, course.first), took)));
        }
        fs::write(&self.file, serde_json::to_string_pretty(&seconds)?)
            .with_context(|| format!("write {}", self.file.display()))
    }

    fn seconds_left(&self) -> f64 {
        let (mut before, mut beside, mut after) = (0.0, 0.0, 0.0);
        for course in self.courses().iter() {
            let sum = match course.part {
                Part::Packages | Part::Kubernetes => &mut before,
                Part::Programs => &mut beside,
                Part::Cluster | Part::Images | Part::Chart | Part::Job => &mut after,
            };
            *sum += self.left_of(course);
        }
        f64::max(before, beside) + after
    }

    fn left_of(&self, course: &Course) -> f64 {
        if course.took.is_some() {
            return 0.0;
        }
        let usual = || course.part.usual(course.first);
        let expected = self.last.get(&key(course.part, course.first)).copied().unwrap_or_else(usual);
        let elapsed = course.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        // What takes longer than it did is not over for that.
        let by_time = (expected - elapsed).max(expected / 10.0);
        let by_work = if course.done > 0.1 { elapsed * (1.0 - course.done) / course.done } else { 0.0 };
        by_time.max(by_work)
    }

    fn update(&self, part: Part, change: impl FnOnce(&mut Course)) {
        if let Some(course) = self.courses().iter_mut().find(|course| course.part == part) {
            change(course);
        }
    }

    fn courses(&self) -> MutexGuard<'_, Vec<Course>> {
        self.courses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(part: Part, first: bool) -> String {
    format!("{}{}", part.name(), if first { ", the first time" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(last: &[(&str, f64)]) -> Estimate {
        let courses = PARTS.map(|part| Course { part, first: true, begun: None, took: None, done: 0.0 });
        Estimate {
            file: PathBuf::new(),
            last: last.iter().map(|(key, seconds)| ((*key).to_owned(), *seconds)).collect(),
            courses: Mutex::new(courses.into()),
        }
    }

    #[test]
    fn parts_beside_each_other_count_once_and_others_add_up() {
        let estimate = estimate(&[]);
        assert_eq!(estimate.seconds_left(), 60.0 + 480.0 + 10.0 + 20.0 + 15.0 + 45.0);
        assert_eq!(estimate.left(), "about 11 minutes left");
        estimate.measure(Part::Kubernetes, || Ok(())).unwrap();
        assert_eq!(estimate.seconds_left(), 480.0 + 10.0 + 20.0 + 15.0 + 45.0);
        for part in PARTS {
            estimate.measure(part, || Ok(())).unwrap();
        }
        assert_eq!(estimate.left(), "less than a minute left");
    }

    #[test]
    fn the_last_run_of_the_same_kind_counts() {
        let estimate = estimate(&[("kubernetes, the first time", 90.0), ("programs", 9.0)]);
        assert_eq!(estimate.seconds_left(), 480.0 + 10.0 + 20.0 + 15.0 + 45.0, "programs are built anew");
    }

    #[test]
    fn a_part_that_is_late_says_so() {
        let estimate = estimate(&[]);
        // A machine that was just started has no earlier moments.
        let begun = Instant::now().checked_sub(std::time::Duration::from_secs(100)).unwrap();
        estimate.update(Part::Programs, |course| course.begun = Some(begun));
        estimate.advance(Part::Programs, 0.125);
        assert!(estimate.seconds_left() >= 700.0 + 90.0, "seven eighths of the work are left");
    }

    #[test]
    fn what_a_run_took_is_read_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("demo")).unwrap();
        let first = Estimate::read(folder.path(), folder.path()).unwrap();
        first.measure(Part::Job, || Ok(())).unwrap();
        first.remember().unwrap();
        let second = Estimate::read(folder.path(), folder.path()).unwrap();
        assert_eq!(second.last.keys().collect::<Vec<_>>(), ["job"]);
    }
}
