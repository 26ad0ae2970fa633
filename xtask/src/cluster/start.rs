//! Bringing the cluster up, and telling whether one that runs is fit to be used. As root.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{
    cache,
    cgroup::Layout,
    config, keeper, load, pki,
    place::{NODES, Place},
    privilege::give_to_caller,
    stop,
    tools::Tools,
};
use crate::{
    process::{require, tail, text},
    progress::{note, step},
};

/// Seconds on an idle machine; a loaded one takes several times as long.
const READY_WITHIN: Duration = Duration::from_secs(240);
const HEALTHY_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// Logs that say why a cluster did not come up.
const TELLING_LOGS: [&str; 4] = ["keeper", "cluster-init", "node1-init", "kube-apiserver"];

/// Reuses a healthy cluster, replaces any other.
pub(super) fn run(place: &Place) -> Result<()> {
    require(&["bash", "mount", "nsenter", "unshare"])?;
    let tools = Tools::prepare(place)?;
    let layout = Layout::of_this_machine()?;
    let files = config::files(place, &tools.debs.network_plugins()?, &layout);
    let definition = definition(&tools, &files);
    let _lock = place.lock()?;
    if place.has_state() {
        match health(place, &layout, &definition) {
            Ok(()) => {
                note("The cluster is up already.");
                return Ok(());
            }
            Err(why) => note(&format!("Replacing the cluster that is there: {why:#}")),
        }
    }
    stop::run_locked(place)?;
    step("Starting a cluster of two nodes (usually about 10 seconds)", || {
        place.create_state()?;
        write(place, &files)?;
        tools.link(&place.state.join("bin"), &place.programs())?;
        pki::write(&place.state.join("pki"))?;
        launch(place, &tools, &definition)
    })
}

/// Fails with the reason why the cluster should not be used. One that lives, but is too busy to look healthy, gets
/// some time: replacing it would destroy what the person has in it.
fn health(place: &Place, layout: &Layout, definition: &str) -> Result<()> {
    let running =
        fs::read_to_string(place.state.join("definition")).context("it was not started completely")?;
    ensure!(running == definition, "it was started by another version of this program");
    let started = Instant::now();
    loop {
        match all_ready(place) {
            Err(_) if started.elapsed() < HEALTHY_WITHIN && !layout.members(&place.group()).is_empty() => {
                sleep(PAUSE)
            }
            result => return result,
        }
    }
}

pub(super) fn all_ready(place: &Place) -> Result<()> {
    let unready =
        nodes(place)?.into_iter().filter(|(_, ready)| !ready).map(|(name, _)| name).collect::<Vec<_>>();
    ensure!(unready.is_empty(), "not ready: {}", unready.join(", "));
    Ok(())
}

/// The nodes' names, and whether each is ready.
fn nodes(place: &Place) -> Result<Vec<(String, bool)>> {
    let mut kubectl = Command::new(place.state.join("bin/kubectl"));
    kubectl.arg("--kubeconfig").arg(place.kubeconfig()).args([
        "--request-timeout=5s",
        "get",
        "nodes",
        "-o",
        "json",
    ]);
    let list: Value = serde_json::from_str(&text(&mut kubectl).context("it does not answer")?)?;
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let nodes: Vec<_> = items.iter().map(|node| (name(node), ready(node))).collect();
    ensure!(nodes.len() == NODES.len(), "{} of {} nodes are there", nodes.len(), NODES.len());
    Ok(nodes)
}

/// What a cluster is made of; another value means another cluster.
fn definition(tools: &Tools, files: &config::Files) -> String {
    let programs = format!("{tools:?}");
    let mut inputs = vec![programs.as_bytes()];
    inputs.extend(files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]));
    cache::key(&inputs)
}

fn write(place: &Place, files: &config::Files) -> Result<()> {
    for (name, text) in files {
        let path = place.state.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&place.state))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn launch(place: &Place, tools: &Tools, definition: &str) -> Result<()> {
    let mut keeper = keeper::spawn(place)?;
    // Dropping the lifeline, on any return from here, takes the half-started cluster down.
    let mut lifeline = keeper.stdin.take().context("the keeper has no lifeline")?;
    wait(place, &mut keeper)?;
    load::run(place, &tools.images)?;
    let port = fs::read_to_string(place.state.join("port")).context("the relay has no port")?;
    let server = format!("https://127.0.0.1:{port}");
    private(&place.kubeconfig(), &pki::admin_kubeconfig(&place.state.join("pki"), &server)?)?;
    fs::write(place.state.join("definition"), definition)?;
    writeln!(lifeline, "{}", keeper::KEEP).context("the cluster ended while it was started")
}

fn wait(place: &Place, keeper: &mut Child) -> Result<()> {
    let started = Instant::now();
    while !place.state.join("ready").exists() {
        if let Some(status) = keeper.try_wait()? {
            bail!("the cluster ended while it was started ({status})\n{}", logs(place));
        }
        if started.elapsed() > READY_WITHIN {
            bail!("the cluster is not ready after {} s\n{}", READY_WITHIN.as_secs(), logs(place));
        }
        sleep(PAUSE);
    }
    Ok(())
}

fn logs(place: &Place) -> String {
    let mut said = String::new();
    for name in TELLING_LOGS {
        let path = place.log(name);
        if let Ok(log) = fs::read_to_string(&path) {
            said += &format!("  {}:\n{}", path.display(), tail(&log));
        }
    }
    said
}

/// Holds the administrator's token: for the person alone, also if root made it for them.
fn private(path: &Path, text: &str) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    give_to_caller(path)
}
