//! One line about everything that goes on at once, with the time that is left: on a terminal it is drawn again every
//! second, elsewhere it is a line of the log every half minute.

use std::{
    io::{IsTerminal, stderr},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::ProgressBar;

use super::{note, spinner};

const DRAWN_EVERY: Duration = Duration::from_secs(1);
const LOGGED_EVERY: Duration = Duration::from_secs(30);

/// What an overview shows at the moment.
struct Shown {
    /// Whether there is an overview.
    active: bool,
    bar: Option<ProgressBar>,
    /// What goes on, in the order of beginning.
    doing: Vec<(u64, String)>,
    begun: u64,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown { active: false, bar: None, doing: Vec::new(), begun: 0 });

fn shown() -> MutexGuard<'static, Shown> {
    // A thread that panicked left at most an activity too many.
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the line until it is dropped.
#[derive(Debug)]
pub(crate) struct Overview {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Overview {
    /// `left` says how long everything will take from now on, in words.
    pub(crate) fn begin(left: impl Fn() -> String + Send + 'static) -> Self {
        let drawn = stderr().is_terminal();
        let bar = drawn.then(|| spinner(&left()));
        *shown() = Shown { active: true, bar: bar.clone(), doing: Vec::new(), begun: 0 };
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            note(&format!("… {}", left()));
            let every = if drawn { DRAWN_EVERY } else { LOGGED_EVERY };
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let line = line(&left());
                match &bar {
                    Some(bar) => bar.set_message(line),
                    None => note(&format!("… {line}")),
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Overview {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once: nothing is left to say.
            let _ = thread.join();
        }
        let mut shown = shown();
        shown.active = false;
        if let Some(bar) = shown.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// `about 7 minutes left: crate 212 of 310, building Kubernetes`. What is left comes first: a narrow terminal cuts the end.
fn line(left: &str) -> String {
    let shown = shown();
    let doing: Vec<_> = shown.doing.iter().map(|(_, what)| what.as_str()).collect();
    if doing.is_empty() { left.to_owned() } else { format!("{left}: {}", doing.join(", ")) }
}

/// Something that goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Activity(u64);

impl Activity {
    /// None if there is no overview to show it in.
    pub(crate) fn begin(what: &str) -> Option<Self> {
        let mut shown = shown();
        if !shown.active {
            return None;
        }
        shown.begun += 1;
        let number = shown.begun;
        shown.doing.push((number, what.to_owned()));
        Some(Self(number))
    }

    /// Says more closely what goes on.
    pub(crate) fn say(&self, what: &str) {
        if let Some((_, text)) = shown().doing.iter_mut().find(|(number, _)| *number == self.0) {
            what.clone_into(text);
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        shown().doing.retain(|(number, _)| *number != self.0);
    }
}

/// Writes to the terminal without being drawn over.
pub(super) fn aside(write: impl FnOnce()) {
    let bar = shown().bar.clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_goes_on_and_what_is_left() {
        assert!(Activity::begin("nothing shows this").is_none());
        let overview = Overview::begin(|| "about 3 minutes left".to_owned());
        let first = Activity::begin("compiling").unwrap();
        let second = Activity::begin("building Kubernetes").unwrap();
        first.say("compiling 2 of 9");
        // Tests beside this one may have begun something too.
        let said = line("soon");
        assert!(said.contains("compiling 2 of 9") && said.contains("building Kubernetes"), "{said}");
        assert!(said.starts_with("soon: "), "{said}");
        drop((first, second));
        assert!(!line("soon").contains("Kubernetes"));
        drop(overview);
        assert!(Activity::begin("nothing shows this").is_none());
    }
}
