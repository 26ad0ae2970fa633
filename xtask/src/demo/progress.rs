//! Follows the two Jobs: a live line while tensors flow, their final words, and how each ended.

use std::{
    io::{BufRead, BufReader, IsTerminal},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::NAMESPACE;
use crate::{
    kubectl::Kubectl,
    progress::{self, Overview},
};

/// From nothing to both Jobs complete; images are loaded already.
const PATIENCE: Duration = Duration::from_secs(600);

/// For the Job controller to make a pod, and between two looks.
const CREATION: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Where lines stay, such as in a log, fewer are enough.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// What the programs said at their end.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) embedder: Value,
    pub(super) ranker: Value,
    pub(super) running: Running,
}

/// How the cluster told it while the pods ran: finished pods have no evidence to show.
#[derive(Debug, Clone, Default)]
pub(super) struct Running {
    pub(super) peer: Value,
    pub(super) listing: String,
}

impl Running {
    /// Looks again; what is already known stays when the pods are gone meanwhile.
    fn look(&mut self, kubectl: &Kubectl) -> Result<()> {
        let peer = kubectl.json(&["-n", NAMESPACE, "get", "peer", "ranker"])?;
        if peer["status"]["platform"].is_string() {
            self.peer = peer;
            self.listing = kubectl.run(&["-n", NAMESPACE, "get", "peers,transfersessions,trustpolicies"])?;
        }
        Ok(())
    }
}

/// One line of a program's standard output, as JSON.
struct Line {
    job: &'static str,
    value: Value,
}

/// `overview` ends when the pods have something to say themselves, and `left` says from then on how long it will take.
pub(super) fn follow(kubectl: &Kubectl, overview: Overview, left: &dyn Fn() -> String) -> Result<Report> {
    let deadline = Instant::now() + PATIENCE;
    progress::step("pods start", || wait_for_pods(kubectl))?;
    drop(overview);
    let (sender, lines) = mpsc::channel();
    let mut followers = vec![
        read(kubectl.command(), "embedder", sender.clone())?,
        read(kubectl.command(), "ranker", sender)?,
    ];
    let report = show(kubectl, &lines, deadline, left);
    for follower in &mut followers {
        // A follower that has ended already cannot be killed; that is fine.
        let _ = follower.kill();
        let _ = follower.wait();
    }
    let report = report?;
    for job in ["job/embedder", "job/ranker"] {
        kubectl.run(&["-n", NAMESPACE, "wait", job, "--for=condition=Complete", "--timeout=120s"])?;
    }
    Ok(report)
}

fn wait_for_pods(kubectl: &Kubectl) -> Result<()> {
    for job in ["embedder", "ranker"] {
        wait_for_creation(kubectl, job)?;
        kubectl.run(&[
            "-n",
            NAMESPACE,
            "wait",
            "pod",
            "-l",
            &format!("app={job}"),
            "--for=condition=PodReadyToStartContainers",
            "--timeout=120s",
        ])?;
    }
    Ok(())
}

/// `kubectl wait` fails at once where the Job's controller has not made the pod yet.
fn wait_for_creation(kubectl: &Kubectl, job: &str) -> Result<()> {
    let deadline = Instant::now() + CREATION;
    while kubectl.run(&["-n", NAMESPACE, "get", "pod", "-l", &format!("app={job}"), "-o", "name"])?.is_empty()
    {
        ensure!(Instant::now() < deadline, "job/{job} has no pod after {} s", CREATION.as_secs());
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn read(mut kubectl: Command, job: &'static str, sender: Sender<Line>) -> Result<Child> {
    let mut child = kubectl
        .args(["-n", NAMESPACE, "logs", "--follow", "--pod-running-timeout=120s", "-c", job])
        .arg(format!("job/{job}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting kubectl logs")?;
    let stdout = child.stdout.take().context("kubectl logs has no output")?;
    thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            if sender.send(Line { job, value }).is_err() {
                return;
            }
        }
    });
    Ok(child)
}

fn show(
    kubectl: &Kubectl,
    lines: &Receiver<Line>,
    deadline: Instant,
    left: &dyn Fn() -> String,
) -> Result<Report> {
    let (mut embedder, mut ranker, mut running) = (None, None, Running::default());
    let mut spoken = Instant::now();
    while embedder.is_none() || ranker.is_none() {
        let patience = deadline.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!("no result after {} s", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("a program ended without its final word"),
        };
        match line.value["event"].as_str() {
            Some("done") if line.job == "embedder" => embedder = Some(line.value),
            Some("done") => ranker = Some(line.value),
            Some("progress") => {
                let due = spoken.elapsed() > BETWEEN_LINES;
                if due || running.listing.is_empty() {
                    running.look(kubectl)?;
                }
                if due || std::io::stdout().is_terminal() {
                    flow(&line, &left());
                }
                if due {
                    spoken = Instant::now();
                }
            }
            Some("error") => bail!("{}: {}", line.job, line.value["message"]),
            // A traceback or a warning: shown as it is.
            _ => {
                let text = line.value.as_str().map_or_else(|| line.value.to_string(), str::to_owned);
                progress::print(&format!("    {}: {text}", line.job));
            }
        }
    }
    progress::settle();
    embedder
        .zip(ranker)
        .map(|(embedder, ranker)| Report { embedder, ranker, running })
        .context("just checked")
}

fn flow(line: &Line, left: &str) {
    progress::live(&format!(
        "    {:<8} {:>5} tensors  {:>9.1} MB  {left}",
        line.job,
        line.value["tensors"].as_u64().unwrap_or(0),
        line.value["bytes"].as_f64().unwrap_or(0.0) / 1e6,
    ));
}
