//! The stacks of what hangs, for the log of its stage.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

/// Programs of one stage that are looked at; more would bury the cause.
const PROGRAMS_MAX: usize = 20;

/// Appends the stacks of all threads of the processes in `group` to `log`: by gdb where there is one, else what the
/// kernel tells. A process that ends meanwhile has none.
pub(super) fn write(group: u32, log: &Path) {
    let Ok(log) = File::options().append(true).open(log) else { return };
    for process in processes(group).into_iter().take(PROGRAMS_MAX) {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        say(&log, &format!("\n== process {process} {name}"));
        let id = process.to_string();
        let arguments = ["-batch", "-nx", "-ex", "thread apply all bt 40", "-p", &id];
        let mut gdb = Command::new("gdb");
        gdb.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let told =
            log.try_clone().is_ok_and(|log| gdb.stdout(log).status().is_ok_and(|status| status.success()));
        if !told {
            kernel(&log, process);
        }
    }
}

/// Where the threads of a process wait, as far as the kernel tells.
fn kernel(log: &File, process: u32) {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return };
    for thread in threads.flatten() {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        say(log, &format!("{} waits in {} {}", read("comm").trim(), read("wchan"), read("syscall").trim()));
    }
}

fn say(mut log: &File, line: &str) {
    use std::io::Write;
    // The log is for reading only; the run goes on without it.
    let _ = writeln!(log, "{line}");
}

/// The processes of a group, and those below them that made groups of their own.
pub(super) fn processes(group: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut known: Vec<(u32, u32, u32)> = ids.filter_map(relation).collect();
    known.sort_unstable();
    let mut found = vec![group];
    // Children come after their parents, as a rule; a second look finds those that do not.
    for _ in 0..2 {
        for (id, parent, of) in &known {
            if (*of == group || found.contains(parent)) && !found.contains(id) {
                found.push(*id);
            }
        }
    }
    found
}

/// A process, its parent and its group (proc(5), `stat`: the name may hold spaces and parentheses).
fn relation(id: u32) -> Option<(u32, u32, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some((id, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_found_and_told() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let own = processes(std::process::id());
        assert!(own.contains(&child.id()), "{own:?}");
        let log = tempfile::NamedTempFile::new().unwrap();
        write(child.id(), log.path());
        child.kill().unwrap();
        child.wait().unwrap();
        let told = fs::read_to_string(log.path()).unwrap();
        assert!(told.contains("sleep"), "{told}");
    }
}
