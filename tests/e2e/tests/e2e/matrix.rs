//! Every way in which people make pods: at admission all of them in one namespace, and with tensors that a ledger follows.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use sealane_e2e::{
    Cluster, Load, Member, Sandbox,
    ledger::Rules,
    loaded,
    matrix::{self, Needs, ROWS, Row, Scene, Second},
    session, until,
};
use serde_json::{Value, json};

/// Rows that were asked of admission, and what was wrong with what came back.
struct Asked<'a> {
    sandbox: &'a Sandbox,
    scene: Scene,
    troubles: Vec<String>,
}

impl<'a> Asked<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, scene: Scene::asked(&sandbox.cluster.image), troubles: Vec::new() }
    }

    /// Asks for what the row's people apply, and for the pod that comes of it.
    async fn ask(&mut self, row: &Row) {
        let object = row.object(&self.scene);
        let pod = matrix::pod_of(&object);
        if let Err(words) = self.sandbox.admitted(&object).await {
            self.troubles.push(format!("{}: its manifest is refused: {words:#}", row.name));
        }
        match self.sandbox.admitted(&pod).await {
            Ok(admitted) => {
                let troubles = matrix::troubles(row, &pod, &admitted);
                self.troubles.extend(troubles.into_iter().map(|words| format!("{}: {words}", row.name)));
            }
            Err(words) => self.troubles.push(format!("{}: its pod is refused: {words:#}", row.name)),
        }
    }

    /// Waits until the API server acts by something that was declared a moment ago.
    async fn until_admitted(&self, row: &Row, what: &str, shows: impl Fn(&Value) -> bool) -> Result<()> {
        let pod = matrix::pod_of(&row.object(&self.scene));
        until(what, || async {
            let admitted = self.sandbox.admitted(&pod).await.map_err(|words| format!("{words:#}"))?;
            if shows(&admitted) { Ok(()) } else { Err(admitted["spec"].to_string()) }
        })
        .await
    }
}

fn rows(needs: Needs) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.needs == needs)
}

fn first(needs: Needs) -> Result<&'static Row> {
    rows(needs).next().with_context(|| format!("no row needs {needs:?}"))
}

/// The quota counts nothing before its controller has looked at it.
async fn declare_quota(sandbox: &Sandbox) -> Result<()> {
    sandbox.apply(vec![matrix::quota()]).await?;
    until("the quota is counted", || async {
        let quota = sandbox.read("resourcequota/matrix").await.map_err(|words| format!("{words:#}"))?;
        let status = &quota["status"];
        if status["hard"]["limits.cpu"].is_string() { Ok(()) } else { Err(status.to_string()) }
    })
    .await
}

#[tokio::test]
async fn inject_fits_every_way_of_making_pods() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("matrix-asked").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    declare_quota(&sandbox).await?;
    let second = Second::install(&sandbox).await?;
    let mut asked = Asked::new(&sandbox);
    for row in rows(Needs::Nothing).chain(rows(Needs::Quota)).chain(rows(Needs::DualStack)) {
        asked.ask(row).await;
    }
    let twice = |admitted: &Value| admitted["spec"]["initContainers"].to_string().contains("\"second\"");
    for row in rows(Needs::Second) {
        asked.until_admitted(row, "the second webhook answers", twice).await?;
        asked.ask(row).await;
    }
    second.remove().await?;
    // What concerns every pod of the namespace comes last.
    sandbox.open().await?;
    let row = first(Needs::Privileged)?;
    asked.until_admitted(row, "the namespace takes pods on the host's network", |_| true).await?;
    asked.ask(row).await;
    sandbox.apply(vec![matrix::limit_range()]).await?;
    let row = first(Needs::LimitRange)?;
    let limited = |admitted: &Value| admitted["spec"]["containers"][0]["resources"]["limits"].is_object();
    asked.until_admitted(row, "the LimitRange is in force", limited).await?;
    asked.ask(row).await;
    let troubles = asked.troubles;
    ensure!(troubles.is_empty(), "{} troubles:\n  {}", troubles.len(), troubles.join("\n  "));
    sandbox.remove().await
}

#[tokio::test]
async fn inject_takes_peers_and_sessions_with_the_longest_names() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("matrix-names").await?;
    for length in [63, 253] {
        let name = |letter: &str| letter.repeat(length);
        let (from, to, lane) = (name("f"), name("t"), name("s"));
        let mut objects = session(&lane, &from, &to);
        let selected = format!("of-{length}");
        objects[0]["spec"]["selector"] = json!({"matchLabels": {"row": selected}});
        objects[1]["spec"]["selector"] = json!({"matchLabels": {"row": "nobody"}});
        sandbox.apply(objects).await.with_context(|| format!("names of {length} characters"))?;
        let row = ROWS.iter().find(|row| row.name == "bare-pod").context("a bare pod")?;
        let mut pod = matrix::pod_of(&row.object(&Scene::asked(&sandbox.cluster.image)));
        pod["metadata"]["labels"] = json!({"row": selected});
        // A pod that was asked for in the moment after its Peer was made gets the sidecar too.
        let admitted = sandbox.admitted(&pod).await?;
        let troubles = matrix::troubles(row, &pod, &admitted);
        ensure!(troubles.is_empty(), "names of {length} characters:\n  {}", troubles.join("\n  "));
        let initdata =
            admitted["metadata"]["annotations"]["sealane.dev/initdata"].as_str().unwrap_or_default();
        ensure!(initdata.contains(&from), "its evidence is for {initdata:?}");
    }
    sandbox.remove().await
}

/// Applies the rows and takes their ledgers into the load as soon as their pods run; gives the pods.
async fn send(sandbox: &Sandbox, load: &mut Load<'_>, rows: &[&Row]) -> Result<Vec<String>> {
    let scene = Scene::running(&sandbox.cluster.image, &sandbox.name);
    // Not server-side: names that the API server gives cannot be applied.
    for row in rows {
        let mut object = row.object(&scene);
        object["metadata"]["namespace"] = sandbox.name.clone().into();
        sandbox.cluster.create(&object, false).await.with_context(|| format!("row {}", row.name))?;
        if object["kind"] == "CronJob" {
            let from = format!("--from=cronjob/{}", row.name);
            sandbox.kubectl(&["create", "job", &format!("{}-by-hand", row.name), &from]).await?;
        }
    }
    let mut pods = Vec::new();
    for row in rows {
        let names = until(&format!("{} pods of row {} in {}", row.pods, row.name, sandbox.name), || async {
            let listed = sandbox.kubectl(&["get", "pods", "-l", &row.selector(), "-o", "name"]).await;
            let listed = listed.map_err(|words| format!("{words:#}"))?;
            let names = listed.lines().filter_map(|line| line.strip_prefix("pod/")).map(str::to_owned);
            let names: BTreeSet<String> = names.collect();
            if names.len() == row.pods { Ok(names) } else { Err(format!("{names:?}")) }
        })
        .await?;
        for name in names {
            load.adopt("left", &name, false).await.with_context(|| format!("row {}", row.name))?;
            pods.push(name);
        }
    }
    Ok(pods)
}

async fn each_has_put(load: &Load<'_>, pods: &[String]) -> Result<()> {
    for pod in pods {
        load.until_count(pod, "put", 20).await?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "how long it took is for people to see")]
fn told(what: &str, time: Duration) {
    println!("{what}: {time:.1?}");
}

#[tokio::test]
async fn e2e_six_ways_of_making_pods_send() -> Result<()> {
    let began = Instant::now();
    let sandbox = loaded("matrix", "RoundRobin").await?;
    let mut load = Load::start(&sandbox, &[Member::receiver(0)]).await?;
    let rows: Vec<_> = ROWS.iter().filter(|row| row.flows_at_landings).collect();
    let pods = send(&sandbox, &mut load, &rows).await?;
    each_has_put(&load, &pods).await?;
    load.settle(&Rules::default()).await?;
    told("six ways of making pods", began.elapsed());
    sandbox.remove().await
}

/// How many rows begin at once: each pod starts Python and a sidecar on the cores that the rows share.
const AT_ONCE: usize = 5;

#[tokio::test]
#[ignore = "long: more than twenty pods send"]
async fn e2e_every_way_of_making_pods_sends() -> Result<()> {
    let sandbox = loaded("matrix-all", "RoundRobin").await?;
    sandbox.open().await?;
    declare_quota(&sandbox).await?;
    let second = Second::install(&sandbox).await?;
    let mut load = Load::start(&sandbox, &[Member::receiver(0), Member::receiver(1)]).await?;
    let mut pods = Vec::new();
    let early: Vec<_> = ROWS.iter().filter(|row| row.needs != Needs::LimitRange).collect();
    for some in early.chunks(AT_ONCE) {
        let more = send(&sandbox, &mut load, some).await?;
        each_has_put(&load, &more).await?;
        pods.extend(more);
    }
    sandbox.apply(vec![matrix::limit_range()]).await?;
    pods.extend(send(&sandbox, &mut load, &[first(Needs::LimitRange)?]).await?);
    each_has_put(&load, &pods).await?;
    both_families(&sandbox).await?;
    load.settle(&Rules::default()).await?;
    second.remove().await?;
    sandbox.remove().await
}

/// Where nodes have addresses of both families, pods and their sidecars do.
async fn both_families(sandbox: &Sandbox) -> Result<()> {
    let families = |addresses: &[&str]| -> BTreeSet<bool> {
        addresses.iter().filter(|address| !address.is_empty()).map(|address| address.contains(':')).collect()
    };
    let words =
        ["get", "node", "node1", "-o", "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}"];
    let node = sandbox.cluster.kubectl(&words).await?;
    let node = families(&node.split_whitespace().collect::<Vec<_>>());
    let words = ["get", "pods", "-l", "row=dual-stack", "-o", "jsonpath={.items[0].status.podIPs[*].ip}"];
    let pod = sandbox.kubectl(&words).await?;
    ensure!(
        families(&pod.split_whitespace().collect::<Vec<_>>()) == node,
        "the pod has {pod}, its node {node:?}"
    );
    if node.len() < 2 {
        told("this cluster has one family of addresses", Duration::ZERO);
    }
    Ok(())
}
