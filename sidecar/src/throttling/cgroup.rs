//! CPU statistics of the control group that this process is in (cgroups(7); `cpu.stat` of both versions).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where containers find the hierarchies.
const ROOT: &str = "/sys/fs/cgroup";
const OWN: &str = "/proc/self/cgroup";
const STATISTICS: &str = "cpu.stat";
/// Neither file comes near it.
const TEXT_BYTES_MAX: u64 = 64 * 1024;

/// What the kernel counted since the group was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuStat {
    /// Enforcement periods in which the group wanted to run.
    pub(super) periods: u64,
    /// Those of them in which it had used up its quota.
    pub(super) throttled: u64,
}

impl CpuStat {
    /// Of a `cpu.stat`; nothing where none of it is about a quota, as in the root of a hierarchy. Both versions name these
    /// two alike (Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of Linux).
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse().ok()
        };
        Some(Self { periods: value("nr_periods")?, throttled: value("nr_throttled")? })
    }
}

/// The file with the statistics of this process's group.
#[derive(Debug)]
pub(super) struct Source(PathBuf);

impl Source {
    /// The first place that has any.
    pub(super) fn find() -> Option<Self> {
        let own = read(Path::new(OWN))?;
        Self::among(places(&own, Path::new(ROOT)))
    }

    fn among(places: Vec<PathBuf>) -> Option<Self> {
        places.into_iter().map(Self).find(|source| source.read().is_some())
    }

    pub(super) fn read(&self) -> Option<CpuStat> {
        read(&self.0).as_deref().and_then(CpuStat::parse)
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Where the statistics may lie, by the text of `/proc/self/cgroup`. A container sees its group as the root where it has a
/// namespace of its own (version 2), and where the runtime mounts its part of a hierarchy alone (version 1), although the
/// text then names the whole path.
fn places(own: &str, root: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for line in own.lines() {
        // hierarchy:controllers:path; no controllers in version 2.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let hierarchies = match controllers {
            "" => vec![root.to_owned()],
            listed if listed.split(',').any(|controller| controller == "cpu") => {
                // The second is a link to the first in most systems, and alone in some.
                vec![root.join(listed), root.join("cpu")]
            }
            _ => continue,
        };
        // As seen from a namespace above or beside it, the path leads out of what is mounted.
        let path = path.trim_start_matches('/');
        let inside = !path.is_empty() && !path.split('/').any(|part| part == "..");
        places.extend(hierarchies.iter().filter(|_| inside).map(|hierarchy| hierarchy.join(path)));
        places.extend(hierarchies);
    }
    places.iter_mut().for_each(|place| place.push(STATISTICS));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "nr_periods 1200\nnr_throttled 300\nthrottled_time 24000000000\n";
    const VERSION_2: &str = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 1200\nnr_throttled 300\nthrottled_usec 24000000\nnr_bursts 0\nburst_usec 0\n";

    #[test]
    fn both_versions_count_periods() {
        for text in [VERSION_1, VERSION_2] {
            assert_eq!(CpuStat::parse(text), Some(CpuStat { periods: 1200, throttled: 300 }));
        }
        for text in ["", "usage_usec 9\nuser_usec 5\nsystem_usec 4\n", "nr_periods x\nnr_throttled 1\n"] {
            assert_eq!(CpuStat::parse(text), None, "{text}");
        }
    }

    /// A file system with these files, of which one has statistics, and what is found there for a process with `own`.
    fn found(own: &str, file: &str, text: &str) -> Option<CpuStat> {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        Source::among(places(own, root.path())).and_then(|source| source.read())
    }

    #[test]
    fn the_group_of_the_process_is_found_in_every_layout() {
        let pod = "kubepods/burstable/pod6f1c/0a";
        let hybrid = format!("4:memory:/{pod}\n3:cpu,cpuacct:/{pod}\n0::/{pod}\n");
        for (own, file, text) in [
            // Version 2: in a namespace of its own, in that of the host, and in one beside it.
            ("0::/\n".to_owned(), "cpu.stat".to_owned(), VERSION_2),
            (format!("0::/{pod}\n"), format!("{pod}/cpu.stat"), VERSION_2),
            (format!("0::/../{pod}\n"), "cpu.stat".to_owned(), VERSION_2),
            // Version 1: the part of the container alone, under either name, and the whole hierarchy.
            (hybrid.clone(), "cpu,cpuacct/cpu.stat".to_owned(), VERSION_1),
            (hybrid.clone(), "cpu/cpu.stat".to_owned(), VERSION_1),
            (hybrid, format!("cpu,cpuacct/{pod}/cpu.stat"), VERSION_1),
        ] {
            let expected = CpuStat { periods: 1200, throttled: 300 };
            assert_eq!(found(&own, &file, text), Some(expected), "{own} {file}");
        }
    }

    #[test]
    fn nothing_is_read_of_another_group_and_nothing_where_there_is_no_quota() {
        assert_eq!(found("0::/kubepods/a\n", "kubepods/b/cpu.stat", VERSION_2), None);
        assert_eq!(found("4:memory:/a\n", "memory/a/cpu.stat", VERSION_1), None);
        assert_eq!(found("3:cpuset:/a\n", "cpu/a/cpu.stat", VERSION_1), None, "another controller");
        assert_eq!(found("0::/\n", "cpu.stat", "usage_usec 9\n"), None, "the root of a hierarchy");
        assert_eq!(found("garbage", "cpu.stat", VERSION_2), None);
    }

    #[test]
    fn statistics_are_read_anew_each_time() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(STATISTICS);
        fs::write(&file, VERSION_2).unwrap();
        let source = Source::among(places("0::/\n", root.path())).unwrap();
        fs::write(&file, VERSION_2.replace("300", "301")).unwrap();
        assert_eq!(source.read(), Some(CpuStat { periods: 1200, throttled: 301 }));
    }
}
