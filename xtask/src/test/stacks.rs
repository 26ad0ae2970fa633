//! The stacks of what hangs, for the log of its stage.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use super::processes;

/// Programs of one stage that are looked at; more would bury the cause.
const PROGRAMS_MAX: usize = 20;

/// Appends the stacks of all threads of the processes in `group` to `log`: by gdb where there is one, else what the
/// kernel tells. A process that ends meanwhile has none.
pub(super) fn write(group: u32, log: &Path) {
    let Ok(log) = File::options().append(true).open(log) else { return };
    for process in processes::of(group).into_iter().take(PROGRAMS_MAX) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_found_and_told() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        write(child.id(), log.path());
        child.kill().unwrap();
        child.wait().unwrap();
        let told = fs::read_to_string(log.path()).unwrap();
        assert!(told.contains("sleep"), "{told}");
    }
}
