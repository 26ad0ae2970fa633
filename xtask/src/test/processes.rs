//! The processes of a stage: what it started, and what that started.

use std::{fs, thread, time::Duration};

use rustix::process::{Pid, Signal, getppid, kill_process};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The processes of a group, and those below them that made groups of their own; the group's first process first.
pub(super) fn of(group: u32) -> Vec<u32> {
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

/// Sends `signal` to a process, if it is there still.
pub(super) fn tell(process: u32, signal: Signal) {
    if let Some(process) = process.try_into().ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, signal);
    }
}

/// Ends the processes of a group, its first one last. They stand still before, so that none starts another meanwhile.
pub(super) fn end(group: u32) {
    let own = std::process::id();
    let mut stopped = Vec::new();
    loop {
        let found = of(group);
        let new: Vec<_> = found.iter().filter(|process| !stopped.contains(*process)).copied().collect();
        if new.is_empty() {
            return found.into_iter().rev().for_each(|process| tell(process, Signal::KILL));
        }
        new.iter().filter(|process| **process != own).for_each(|process| tell(*process, Signal::STOP));
        stopped.extend(new);
    }
}

/// Ends this process and all that it started as soon as the one that started it is gone: a run that was ended leaves
/// nothing that keeps cores, ports and nodes busy.
pub(super) fn end_with_parent() {
    let parent = getppid();
    thread::spawn(move || {
        while getppid() == parent {
            thread::sleep(LOOK_EVERY);
        }
        end(std::process::id());
    });
}

/// A process, its parent and its group (proc(5), `stat`: the name may hold spaces and parentheses).
fn relation(id: u32) -> Option<(u32, u32, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some((id, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        os::unix::process::CommandExt,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn all_that_a_stage_started_ends_with_it() {
        // The inner shell leaves the group, as cargo-nextest's tests do.
        let script = "setsid sh -c 'echo $$; sleep 600' & echo $!; wait";
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", script]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let [_, inner] = [(); 2].map(|()| lines.next().unwrap().unwrap().parse::<u32>().unwrap());
        assert!(of(std::process::id()).contains(&shell.id()));
        let started = of(shell.id());
        assert!(started[0] == shell.id() && started.contains(&inner), "{started:?}");
        end(shell.id());
        shell.wait().unwrap();
        // The pipe closes when the last process that holds it is gone.
        assert!(lines.next().is_none());
    }
}
