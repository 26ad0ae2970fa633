//! The one process of the cluster that lives outside its namespaces: it starts the cluster, relays connections to
//! it, and clears the cgroups away when it ends.
//!
//! Its standard input is a lifeline to the command that started it. Until that command writes [`KEEP`], the end of
//! the lifeline (Ctrl-C, a closed terminal, a failure) takes the half-started cluster down. Afterwards the cluster
//! lives until its init process ends.

use std::{
    fs,
    io::{BufRead, stdin},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Sender, channel},
    thread,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, setsid};

use super::{
    cgroup::Layout,
    place::{NODES, Place},
    processes,
};
use crate::{
    process::{own_program, start_error},
    progress::note,
};

/// What the starting command writes once the cluster is whole.
pub(super) const KEEP: &str = "keep";

enum Event {
    Abandoned,
    Ended,
}

/// Starts a keeper in a session of its own, so that it outlives the shell.
pub(super) fn spawn(place: &Place) -> Result<Child> {
    let log = fs::File::create(place.log("keeper"))?;
    let mut command = Command::new(own_program());
    // The state folder is also among the arguments so that `processes` can tell whose keeper this is.
    command.args(["cluster", "keep"]).arg(&place.state).current_dir("/");
    command.env("SEALANE_CACHE", &place.cache).env("SEALANE_STATE", &place.state);
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    command.spawn().map_err(|error| start_error(&command, error))
}

/// The keeper itself.
pub(super) fn run(place: &Place) -> Result<()> {
    setsid().context("start a session")?;
    let layout = Layout::of_this_machine()?;
    layout.create(place)?;
    // A port of the system's choice: the kubeconfig names it, and nothing else needs to know.
    let listener = TcpListener::bind("127.0.0.1:0").context("listen on 127.0.0.1")?;
    write_whole(&place.state.join("port"), &listener.local_addr()?.port().to_string())?;
    let mut init = start_init(place)?;
    let init_pid = Pid::from_child(&init);

    let (sender, events) = channel();
    watch_lifeline(sender.clone());
    let relayed = place.clone();
    thread::spawn(move || super::relay::serve(&listener, &relayed));
    thread::spawn(move || {
        let status = init.wait();
        note(&format!("the cluster ended: {status:?}"));
        let _ = sender.send(Event::Ended);
    });
    for event in events {
        match event {
            Event::Ended => break,
            Event::Abandoned => {
                note("the command that started the cluster went away before it was ready");
                // unshare takes the whole pid namespace with it; its number is still ours, as nobody waited yet.
                let _ = kill_process(init_pid, Signal::KILL);
            }
        }
    }
    processes::end_all(&layout, &place.group())
}

/// The cluster's init runs with an environment of its own: proxies and locales of the person's shell must not reach
/// the components.
fn start_init(place: &Place) -> Result<Child> {
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let log = fs::File::create(place.log("cluster-init"))?;
    let mut command = Command::new("unshare");
    command.args([
        "--fork",
        "--kill-child=KILL",
        "--pid",
        "--mount",
        "--net",
        "--ipc",
        "--propagation",
        "private",
    ]);
    command.arg("bash").arg(place.state.join("cluster-init.sh")).env_clear();
    command.env("PATH", format!("{}:{system}", place.programs().display()));
    command.env("STATE", &place.state).env("HOME", &place.state).env("LC_ALL", "C.UTF-8");
    command.env("NODES", NODES.map(|node| node.name).join(" "));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().map_err(|error| start_error(&command, error))
}

fn watch_lifeline(events: Sender<Event>) {
    thread::spawn(move || {
        let mut line = String::new();
        let kept = stdin().lock().read_line(&mut line).is_ok() && line.trim() == KEEP;
        if !kept {
            let _ = events.send(Event::Abandoned);
        }
    });
}

/// Readers never see half of it.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path).with_context(|| format!("write {}", path.display()))
}
