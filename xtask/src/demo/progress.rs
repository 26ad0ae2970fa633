//! Follows the two Jobs: a live line while tensors flow, their final words, and how each ended.

use std::{
    io::{BufRead, BufReader, IsTerminal},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::NAMESPACE;
use crate::{kubectl::Kubectl, progress};

/// From nothing to both Jobs complete; images are loaded already.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where lines stay, such as in a log, fewer are enough.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// What the programs said at their end.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) embedder: Value,
    pub(super) ranker: Value,
    /// The ranker's Peer while its pod ran: a finished pod has no evidence to show.
    pub(super) peer: Value,
}

/// One line of a program's standard output, as JSON.
struct Line {
    job: &'static str,
    value: Value,
}

pub(super) fn follow(kubectl: &Kubectl) -> Result<Report> {
    let deadline = Instant::now() + PATIENCE;
    wait_for_pods(kubectl)?;
    let (sender, lines) = mpsc::channel();
    let mut followers = vec![
        read(kubectl.command(), "embedder", sender.clone())?,
        read(kubectl.command(), "ranker", sender)?,
    ];
    let report = show(kubectl, &lines, deadline);
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

fn show(kubectl: &Kubectl, lines: &Receiver<Line>, deadline: Instant) -> Result<Report> {
    let (mut embedder, mut ranker, mut peer) = (None, None, Value::Null);
    let mut spoken = Instant::now();
    while embedder.is_none() || ranker.is_none() {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!("no result after {} s", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("a program ended without its final word"),
        };
        match line.value["event"].as_str() {
            Some("done") if line.job == "embedder" => embedder = Some(line.value),
            Some("done") => ranker = Some(line.value),
            Some("progress") => {
                if !peer["status"]["platform"].is_string() {
                    peer = kubectl.json(&["-n", NAMESPACE, "get", "peer", "ranker"])?;
                }
                if std::io::stdout().is_terminal() || spoken.elapsed() > BETWEEN_LINES {
                    spoken = Instant::now();
                    flow(&line);
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
    embedder.zip(ranker).map(|(embedder, ranker)| Report { embedder, ranker, peer }).context("just checked")
}

fn flow(line: &Line) {
    progress::live(&format!(
        "    {:<8} {:>5} tensors  {:>9.1} MB",
        line.job,
        line.value["tensors"].as_u64().unwrap_or(0),
        line.value["bytes"].as_f64().unwrap_or(0.0) / 1e6,
    ));
}
