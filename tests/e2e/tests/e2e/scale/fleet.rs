//! Hundreds of sidecars in one program, as far as the operator can tell: each has a connection, a token and a stream of
//! its own, reports what it was told, and counts.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use prost::Message;
use sealane_sidecar_api::control::control_client::ControlClient;
use sealane_sidecar_api::control::{
    EvidenceReport, FromSidecar, PolicyReport, Register, Report, SessionReport, from_operator, from_sidecar,
};
use sealane_sidecar_api::delta::FEATURE;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

use super::state::{State, States, Stream, digest};
use super::world::World;

/// Names the file with the plan to the program that is the fleet.
pub(crate) const VARIABLE: &str = "SEALANE_FLEET";
/// As often as a sidecar tells counters.
const COUNTERS: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(300);
/// What each sidecar adds to both: this program and the cluster share a machine.
const AGAIN_OF_EACH: Duration = Duration::from_micros(100);
const PATIENCE_OF_EACH: Duration = Duration::from_millis(60);
/// Sidecars that connect and register at one time; the others have not started yet.
const ATTACHING: usize = 256;
const NAME: &str = "sealane-control.sealane-system.svc";
/// What the sidecar accepts.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Sent before a snapshot, so that it is told from what the test harness prints.
const MARK: &str = "fleet:";

/// Milliseconds since 1970 by this machine's clock, which both programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where the operator is, and who attaches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) address: String,
    pub(crate) authorities: String,
    pub(crate) members: Vec<Member>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) address: String,
    pub(crate) token: String,
}

/// What a sidecar was told last.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) pod: String,
    pub(crate) sessions: usize,
    pub(crate) replicas: usize,
    /// Of the messages that told the newest configuration.
    pub(crate) bytes: u64,
    /// When the number of sessions and replicas last changed.
    pub(crate) complete: Option<Moment>,
    /// A digest of the policy's chain.
    pub(crate) policy: Option<u64>,
    pub(crate) policy_since: Moment,
    pub(crate) failure: Option<String>,
}

impl Seen {
    /// Whether the policy with this document is the one that it was told last.
    pub(crate) fn holds(&self, document: &str) -> bool {
        self.policy == Some(digest(document))
    }

    fn take(&mut self, state: &State, bytes: u64) {
        let (sessions, replicas) = (state.told.sessions.len(), state.replicas);
        if (self.sessions, self.replicas) != (sessions, replicas) {
            self.complete = Some(Moment::now());
        }
        (self.sessions, self.replicas, self.bytes) = (sessions, replicas, bytes);
        if self.policy != state.policy {
            (self.policy, self.policy_since) = (state.policy, Moment::now());
        }
    }
}

/// The fleet as the test holds it.
pub(crate) struct Fleet {
    child: Child,
    says: ChildStdin,
    hears: Lines<BufReader<ChildStdout>>,
    sidecars: u32,
    _plan: TempDir,
}

impl Fleet {
    pub(crate) async fn start(world: &World<'_>) -> Result<Self> {
        let folder = TempDir::new()?;
        let file = folder.path().join("fleet.json");
        std::fs::write(&file, serde_json::to_vec(&world.plan)?)?;
        let own = std::env::current_exe()?;
        let variable = format!("{VARIABLE}={}", file.display());
        let own = own.to_string_lossy();
        // A descriptor for each sidecar, where this may be asked for.
        let open = "ulimit -n 65536; exec \"$@\"";
        let words = [
            "sh",
            "-c",
            open,
            "fleet",
            "env",
            &variable,
            &own,
            "scale::scale_fleet",
            "--exact",
            "--ignored",
            "--nocapture",
        ];
        let (program, arguments) = world.cluster().on_node("node1", &words)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let says = child.stdin.take().context("no way to speak to the fleet")?;
        let hears = BufReader::new(child.stdout.take().context("no way to hear the fleet")?).lines();
        let sidecars = u32::try_from(world.pods)?;
        Ok(Self { child, says, hears, sidecars, _plan: folder })
    }

    pub(crate) async fn say(&mut self, word: &str) -> Result<()> {
        self.says.write_all(format!("{word}\n").as_bytes()).await?;
        Ok(())
    }

    async fn snapshot(&mut self) -> Result<Vec<Seen>> {
        self.say("snapshot").await?;
        while let Some(line) = self.hears.next_line().await? {
            if let Some(text) = line.split_once(MARK).map(|(_, text)| text) {
                return Ok(serde_json::from_str(text)?);
            }
        }
        bail!("the fleet has ended")
    }

    /// Waits until every sidecar has seen what is asked for.
    pub(crate) async fn wait(&mut self, done: impl Fn(&[Seen]) -> bool) -> Result<Vec<Seen>> {
        let began = std::time::Instant::now();
        let patience = PATIENCE + PATIENCE_OF_EACH * self.sidecars;
        loop {
            let seen = self.snapshot().await?;
            if done(&seen) {
                return Ok(seen);
            }
            if began.elapsed() > patience {
                let example = seen.iter().find(|sidecar| !done(std::slice::from_ref(sidecar)));
                bail!("not within {patience:?}; for example {example:?}");
            }
            tokio::time::sleep(AGAIN + AGAIN_OF_EACH * self.sidecars).await;
        }
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        self.say("end").await?;
        self.child.wait().await?;
        Ok(())
    }
}

/// Is the fleet until it is told to end.
pub(crate) async fn run(file: &Path) -> Result<()> {
    let plan: Plan = serde_json::from_slice(&std::fs::read(file)?)?;
    let counting = Arc::new(AtomicBool::new(false));
    let all = Arc::new(Mutex::new(vec![Seen::default(); plan.members.len()]));
    let (states, attaching) = (Arc::<States>::default(), Arc::new(Semaphore::new(ATTACHING)));
    let tls =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&plan.authorities)).domain_name(NAME);
    let endpoint = Endpoint::from_shared(plan.address)?.tls_config(tls)?;
    for (index, member) in plan.members.into_iter().enumerate() {
        let sidecar = Sidecar {
            index,
            member,
            endpoint: endpoint.clone(),
            all: Arc::clone(&all),
            counting: Arc::clone(&counting),
            states: Arc::clone(&states),
            attaching: Arc::clone(&attaching),
        };
        tokio::spawn(sidecar.live());
    }
    // Reading blocks, and so has a thread of its own.
    tokio::task::spawn_blocking(move || obey(&all, &counting)).await?
}

/// Does what the test says, one word a line, until it is told to end.
fn obey(all: &Mutex<Vec<Seen>>, counting: &AtomicBool) -> Result<()> {
    for word in std::io::stdin().lines() {
        match word?.as_str() {
            "load" => counting.store(true, Ordering::Relaxed),
            "end" => return Ok(()),
            _ => {
                let text = serde_json::to_string(&*all.lock().unwrap_or_else(PoisonError::into_inner))?;
                let mut stdout = std::io::stdout().lock();
                writeln!(stdout, "{MARK}{text}")?;
                stdout.flush()?;
            }
        }
    }
    Ok(())
}

/// One sidecar, as the operator knows it.
struct Sidecar {
    index: usize,
    member: Member,
    endpoint: Endpoint,
    all: Arc<Mutex<Vec<Seen>>>,
    counting: Arc<AtomicBool>,
    states: Arc<States>,
    attaching: Arc<Semaphore>,
}

impl Sidecar {
    async fn live(self) {
        self.note(|seen| seen.pod = self.member.pod.clone());
        loop {
            let ended = self.attach().await;
            let failure = ended.err().map(|error| format!("{error:#}"));
            self.note(|seen| seen.failure = failure.clone());
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = all.get_mut(self.index) {
            change(seen);
        }
    }

    async fn attach(&self) -> Result<()> {
        let place = self.attaching.acquire().await?;
        let channel = self.endpoint.connect().await?;
        let (says, messages) = mpsc::channel(4);
        says.send(FromSidecar { message: Some(from_sidecar::Message::Register(self.register())) }).await?;
        let mut request = Request::new(ReceiverStream::new(messages));
        request.metadata_mut().insert("authorization", format!("Bearer {}", self.member.token).parse()?);
        let mut client = ControlClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut hears = match client.attach(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::Unavailable => bail!("not the leader: {status}"),
            Err(status) => return Err(status.into()),
        };
        drop(place);
        // Sidecars do not all count at one moment.
        let first = tokio::time::Instant::now() + COUNTERS.mul_f64((self.index % 100) as f64 / 100.0);
        let mut counters = tokio::time::interval_at(first, COUNTERS);
        let (mut stream, mut generation, mut bytes, mut rounds) = (Stream::default(), 0, 0, 0_u64);
        loop {
            tokio::select! {
                message = hears.message() => {
                    let Some(message) = message?.and_then(|message| message.message) else { return Ok(()) };
                    let from_operator::Message::Delta(delta) = message else { bail!("no change: {message:?}") };
                    bytes += delta.encoded_len() as u64;
                    let Some(state) = stream.take(&delta, &self.states)? else { continue };
                    self.note(|seen| seen.take(&state, bytes));
                    (generation, bytes) = (delta.generation, 0);
                }
                _ = counters.tick() => {
                    if !self.counting.load(Ordering::Relaxed) {
                        continue;
                    }
                    rounds += 1;
                }
            }
            let Some(state) = &stream.state else { continue };
            let report = report(state, generation, rounds);
            says.send(FromSidecar { message: Some(from_sidecar::Message::Report(report)) }).await?;
        }
    }

    fn register(&self) -> Register {
        let Member { namespace, pod, uid, node, address, token: _ } = self.member.clone();
        let mut incarnation = vec![0; 16];
        incarnation[..8].copy_from_slice(&(self.index as u64).to_be_bytes());
        Register {
            version: "0.1.0".to_owned(),
            namespace,
            pod,
            uid,
            node,
            addresses: vec![address],
            data_port: 14710,
            static_key: vec![7; 32],
            incarnation,
            features: vec![FEATURE.to_owned()],
        }
    }
}

/// Everything is well, and every session is connected to everybody.
fn report(state: &State, generation: u64, rounds: u64) -> Report {
    let State { told, epoch, .. } = state;
    let sessions = told.sessions.iter().map(|session| {
        let replicas: usize = session.remotes.iter().map(|remote| remote.replicas.len()).sum();
        let connections = u32::try_from(replicas).unwrap_or(u32::MAX);
        SessionReport {
            name: session.name.clone(),
            uid: session.uid.clone(),
            connections,
            connections_desired: connections,
            bytes: rounds * 1_000_000,
            tensors: rounds * 10,
            carrier: "Tcp".to_owned(),
            cipher: "Aes256Gcm".to_owned(),
            post_quantum: true,
            handshake_micros: 1500,
            ..SessionReport::default()
        }
    });
    Report {
        externals: Vec::new(),
        generation,
        policy: Some(PolicyReport {
            verified: told.policy.is_some(),
            epoch: *epoch,
            root_source: "Injected".to_owned(),
            ..PolicyReport::default()
        }),
        evidence: Some(EvidenceReport {
            verified: true,
            platform: "Simulated".to_owned(),
            assurance: "Simulated".to_owned(),
            tcb_status: "UpToDate".to_owned(),
            ..EvidenceReport::default()
        }),
        sessions: sessions.collect(),
        finished: false,
    }
}
