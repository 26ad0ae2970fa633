//! Applications that send and take all the time while something is broken under them, and note what they do.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    Cluster, Sandbox, Signing,
    faults::SIDECAR,
    hold::Hold,
    ledger::{Book, Rules, judge},
    session, until,
};

const LEDGER: &str = include_str!("../programs/ledger.py");
const SENDER: &str = include_str!("../programs/sender.py");
const RECEIVER: &str = include_str!("../programs/receiver.py");

/// One pod of a load.
#[derive(Debug, Clone)]
pub struct Member {
    /// The Peer it belongs to, which is also its label `app`.
    pub peer: String,
    pub pod: String,
    pub node: &'static str,
    program: &'static str,
    plan: Value,
    annotations: Value,
    host_network: bool,
    stepped: bool,
}

impl Member {
    /// `left-N` on node1.
    #[must_use]
    pub fn sender(number: u32) -> Self {
        Self::new("left", number, "node1", "sender.py")
    }

    /// `right-N` on node2.
    #[must_use]
    pub fn receiver(number: u32) -> Self {
        Self::new("right", number, "node2", "receiver.py")
    }

    fn new(peer: &str, number: u32, node: &'static str, program: &'static str) -> Self {
        let pod = format!("{peer}-{number}");
        let (plan, annotations) = (json!({}), json!({}));
        let (host_network, stepped) = (false, false);
        Self { peer: peer.to_owned(), pod, node, program, plan, annotations, host_network, stepped }
    }

    /// What the program reads, see `programs/`.
    #[must_use]
    pub fn plan(mut self, plan: Value) -> Self {
        self.plan = plan;
        self
    }

    /// Of another Peer.
    #[must_use]
    pub fn of(mut self, peer: &str, number: u32) -> Self {
        self.peer = peer.to_owned();
        self.pod = format!("{peer}-{number}");
        self
    }

    /// On another node.
    #[must_use]
    pub fn on(mut self, node: &'static str) -> Self {
        self.node = node;
        self
    }

    #[must_use]
    pub fn annotated(mut self, annotations: Value) -> Self {
        self.annotations = annotations;
        self
    }

    /// On the host's network, which needs [`Sandbox::open`].
    #[must_use]
    pub fn on_host_network(mut self) -> Self {
        self.host_network = true;
        self
    }

    /// With a sidecar whose clock [`Load::step`] turns.
    #[must_use]
    pub fn with_stepped_clock(mut self) -> Self {
        self.stepped = true;
        self
    }

    fn is_receiver(&self) -> bool {
        self.program == "receiver.py"
    }

    /// What the pod is made from: metadata and spec.
    #[must_use]
    pub fn template(&self, image: &str) -> Value {
        json!({
            "metadata": {"labels": {"app": self.peer}, "annotations": self.annotations},
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 20,
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "hostNetwork": self.host_network,
                "dnsPolicy": if self.host_network { "ClusterFirstWithHostNet" } else { "ClusterFirst" },
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": "program", "image": image,
                    "command": ["python3", "-u", format!("/programs/{}", self.program)],
                    "env": [{"name": "PLAN", "value": self.plan.to_string()}],
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "programs", "mountPath": "/programs", "readOnly": true},
                        {"name": "ledger", "mountPath": "/ledger"},
                    ],
                }],
                "volumes": [
                    {"name": "programs", "configMap": {"name": "load-programs"}},
                    {"name": "ledger", "emptyDir": {}},
                ],
            },
        })
    }

    fn manifest(&self, image: &str) -> Value {
        let mut pod = self.template(image);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(self.pod);
        pod
    }

    /// The pod as it is asked for.
    async fn object(&self, sandbox: &Sandbox) -> Result<Value> {
        let pod = self.manifest(&sandbox.cluster.image);
        if self.stepped { follow_a_file(sandbox.admitted(&pod).await?) } else { Ok(pod) }
    }
}

/// Where a stepped clock finds its offset: on the volume of the ledger.
const CLOCK: &str = "clock";

/// The pod of an answer of admission, whose sidecar follows the clock that `docs/simulation.md` tells of. Admission leaves
/// a pod alone that has its sidecar.
fn follow_a_file(mut pod: Value) -> Result<Value> {
    let metadata = pod["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
    pod.as_object_mut().context("a pod")?.remove("status");
    let containers = pod["spec"]["initContainers"].as_array_mut().context("init containers")?;
    let sidecar = containers.iter_mut().find(|one| one["name"] == SIDECAR).context("a sidecar")?;
    let variable = json!({"name": "SEALANE_SIMULATED_CLOCK", "value": format!("/ledger/{CLOCK}")});
    let mount = json!({"name": "ledger", "mountPath": "/ledger", "readOnly": true});
    sidecar["env"].as_array_mut().context("the sidecar's environment")?.push(variable);
    sidecar["volumeMounts"].as_array_mut().context("the sidecar's mounts")?.push(mount);
    Ok(pod)
}

/// A namespace named after the test with a signed policy, and a session `lane` from Peer `left` to Peer `right`.
///
/// # Errors
/// Something is not accepted.
pub async fn loaded(test: &str, delivery: &str) -> Result<Sandbox> {
    let sandbox = Cluster::connect()?.sandbox(&format!("fault-{test}")).await?;
    let mut objects = session("lane", "left", "right");
    objects[2]["spec"]["stream"] = json!({"delivery": delivery});
    sandbox.apply(objects).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    Ok(sandbox)
}

/// Pods by name, for [`Rules`].
#[must_use]
pub fn named(pods: &[&str]) -> BTreeSet<String> {
    pods.iter().map(|pod| (*pod).to_owned()).collect()
}

/// The programs that members run.
#[must_use]
pub fn programs() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "load-programs"},
        "data": {"ledger.py": LEDGER, "sender.py": SENDER, "receiver.py": RECEIVER},
    })
}

/// A running load, and every ledger of it.
#[derive(Debug)]
pub struct Load<'a> {
    sandbox: &'a Sandbox,
    senders: Vec<Hold>,
    receivers: Vec<Hold>,
    /// Of pods whose programs were seen through to their end, or that are gone.
    past: Vec<Hold>,
}

impl<'a> Load<'a> {
    /// Starts the pods and waits until each has begun its ledger.
    ///
    /// # Errors
    /// Admission's words, or a pod that does not run.
    pub async fn start(sandbox: &'a Sandbox, members: &[Member]) -> Result<Self> {
        let mut objects = vec![programs()];
        for member in members {
            objects.push(member.object(sandbox).await?);
        }
        sandbox.apply(objects).await?;
        let mut load = Self { sandbox, senders: Vec::new(), receivers: Vec::new(), past: Vec::new() };
        for member in members {
            load.adopt(&member.peer, &member.pod, member.is_receiver()).await?;
        }
        Ok(load)
    }

    /// Starts another pod and waits until it has begun its ledger.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn join(&mut self, member: &Member) -> Result<()> {
        self.sandbox.apply(vec![member.object(self.sandbox).await?]).await?;
        self.adopt(&member.peer, &member.pod, member.is_receiver()).await
    }

    /// Holds the ledger of a pod that something else made.
    ///
    /// # Errors
    /// It does not run in time.
    pub async fn adopt(&mut self, peer: &str, pod: &str, receiver: bool) -> Result<()> {
        let (uid, node) = until(&format!("{pod} is on a node"), || async {
            let seen = self.sandbox.pod(pod).await.map_err(|error| format!("{error:#}"))?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let place = text(&seen["metadata"]["uid"]).zip(text(&seen["spec"]["nodeName"]));
            place.ok_or_else(|| seen["status"].to_string())
        })
        .await?;
        let hold = Hold::begin(&self.sandbox.cluster, peer, pod, &node, &uid).await?;
        if receiver {
            self.receivers.push(hold)
        } else {
            self.senders.push(hold)
        }
        Ok(())
    }

    /// The pod is gone, or about to be: nobody waits for its program any more.
    pub fn part(&mut self, pod: &str) {
        for holds in [&mut self.senders, &mut self.receivers] {
            if let Some(index) = holds.iter().position(|hold| hold.pod == pod) {
                self.past.push(holds.remove(index));
            }
        }
    }

    /// How often `event` stands in the ledger of `pod`.
    ///
    /// # Errors
    /// The node cannot be reached, or there is no such ledger.
    pub async fn count(&self, pod: &str, event: &str) -> Result<u64> {
        self.ledger(pod)?.count(&self.sandbox.cluster, event).await
    }

    fn ledger(&self, pod: &str) -> Result<&Hold> {
        let hold = self.senders.iter().chain(&self.receivers).find(|hold| hold.pod == pod);
        hold.with_context(|| format!("no ledger of {pod}"))
    }

    /// Has the clock of a member's sidecar differ from the machine's by so many seconds.
    ///
    /// # Errors
    /// The node cannot be reached, or there is no such ledger.
    pub async fn step(&self, pod: &str, seconds: i64) -> Result<()> {
        self.ledger(pod)?.write(&self.sandbox.cluster, CLOCK, &seconds.to_string()).await
    }

    /// Waits until `event` stands `more` times more in the ledger of `pod` than now.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn until_more(&self, pod: &str, event: &str, more: u64) -> Result<()> {
        let wanted = self.count(pod, event).await? + more;
        self.until_count(pod, event, wanted).await
    }

    /// Waits until `event` stands at least `wanted` times in the ledger of `pod`.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn until_count(&self, pod: &str, event: &str, wanted: u64) -> Result<()> {
        let what = format!("{wanted} × {event} in the ledger of {pod} in {}", self.sandbox.name);
        until(&what, || async {
            let count = self.count(pod, event).await.map_err(|error| format!("{error:#}"))?;
            if count >= wanted { Ok(()) } else { Err(count.to_string()) }
        })
        .await
    }

    /// Waits until every receiver has taken `more` tensors from now on.
    ///
    /// # Errors
    /// One did not in time.
    pub async fn flows(&self, more: u64) -> Result<()> {
        for hold in &self.receivers {
            self.until_more(&hold.pod, "took", more).await?;
        }
        Ok(())
    }

    /// Waits until `lane` has this many connections, then lets the senders begin whose plan says `waits`. A broadcast
    /// reaches the replicas that are connected when it is put: one that connects later rightly misses what went before.
    ///
    /// # Errors
    /// The replicas do not connect in time.
    pub async fn begin(&self, connections: u64) -> Result<()> {
        until(&format!("{connections} connections of lane in {}", self.sandbox.name), || async {
            let seen =
                self.sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
            let open = seen["status"]["connections"].as_u64();
            if open >= Some(connections) { Ok(()) } else { Err(seen["status"].to_string()) }
        })
        .await?;
        for sender in &self.senders {
            sender.tell(&self.sandbox.cluster, "go").await?;
        }
        Ok(())
    }

    /// Tells one program to go on, or to stop: makes a file that it looks for.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub async fn tell(&self, pod: &str, word: &str) -> Result<()> {
        self.ledger(pod)?.tell(&self.sandbox.cluster, word).await
    }

    /// Lets the senders close, waits until every receiver heard the end, and gives all ledgers.
    ///
    /// # Errors
    /// Somebody does not come to an end in time.
    pub async fn stop(mut self) -> Result<Vec<Book>> {
        let cluster = &self.sandbox.cluster;
        for sender in &self.senders {
            sender.tell(cluster, "stop").await?;
        }
        for (holds, ends) in [(&self.senders, ["closed", "error"]), (&self.receivers, ["ended", "error"])] {
            for hold in holds {
                until(&format!("{} comes to its end in {}", hold.pod, self.sandbox.name), || async {
                    for end in ends {
                        let count = hold.count(cluster, end).await.map_err(|error| format!("{error:#}"))?;
                        if count > 0 {
                            return Ok(());
                        }
                    }
                    Err(format!("none of {ends:?} in its ledger"))
                })
                .await?;
            }
        }
        let holds = [&mut self.past, &mut self.senders, &mut self.receivers];
        let mut books = Vec::new();
        for hold in holds.into_iter().flat_map(|holds| holds.drain(..)) {
            books.push(hold.finish().await?);
        }
        Ok(books)
    }

    /// As [`Self::stop`]; then the ledgers decide.
    ///
    /// # Errors
    /// A promise that was broken, with all findings.
    pub async fn settle(self, rules: &Rules) -> Result<Vec<Book>> {
        let name = self.sandbox.name.clone();
        let books = self.stop().await?;
        let verdict = judge(&books, rules);
        report(&format!("{name}: {}", verdict.figures));
        let findings: Vec<String> = verdict.findings.iter().take(20).map(ToString::to_string).collect();
        let count = verdict.findings.len();
        ensure!(
            findings.is_empty(),
            "{name}: {count} findings; {}\n  {}",
            verdict.figures,
            findings.join("\n  ")
        );
        ensure!(verdict.figures.confirmed > 0, "{name}: a load that moved nothing proves nothing");
        Ok(books)
    }
}

#[expect(clippy::print_stdout, reason = "shown with a failure, or when a person asks for it")]
fn report(line: &str) {
    println!("{line}");
}
