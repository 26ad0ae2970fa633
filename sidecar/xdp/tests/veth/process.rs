//! The other process of tests: this program again, in a namespace, with a role.

use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use sealane_xdp::{Capabilities, OpenError, Opened, Options, Resolver, drop_capabilities, open};

use crate::traffic::{receive, resolved_in_place, send};
use crate::wire::{End, PORT};

const ROLE: &str = "SEALANE_XDP_ROLE";
const ADDRESS: &str = "SEALANE_XDP_ADDRESS";
const INTERFACE: &str = "SEALANE_XDP_INTERFACE";

/// What the other process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Opens links and waits to be killed.
    Hold,
    /// Opens links, drops every capability, and answers one packet.
    DropAndAnswer,
}

/// A process that is killed when it is no longer needed.
#[derive(Debug)]
pub(crate) struct Other {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts a process and waits until it says that it is ready.
    pub(crate) fn start(end: &End, role: Role) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &end.namespace])
            .arg(program)
            .args(["other_process", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, format!("{role:?}"))
            .env(ADDRESS, end.four.to_string())
            .env(INTERFACE, end.interface)
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut other = Self { child, output };
        other.expect("ready");
        other
    }

    /// Reads until a line says `word`.
    pub(crate) fn expect(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let bytes = self.output.read_line(&mut line).expect("its output");
            assert!(bytes > 0, "the other process ended without saying {word:?}");
        }
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is still there");
        self.child.wait().expect("its end");
    }

    pub(crate) fn succeeded(mut self) -> bool {
        self.child.wait().expect("its end").success()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the other process runs.
pub(crate) fn act() {
    let role = std::env::var(ROLE).expect("this is no test, but the other process of some");
    let address: IpAddr = std::env::var(ADDRESS).expect("an address").parse().expect("an address");
    let interface = std::env::var(INTERFACE).expect("an interface");
    let options = Options::new(interface, vec![address], PORT);
    let opened = open(&options).expect("links");
    match role.as_str() {
        "Hold" => {
            say("ready");
            loop {
                std::thread::park();
            }
        }
        "DropAndAnswer" => answer_without_capabilities(opened, &options),
        other => panic!("no such role: {other}"),
    }
}

fn answer_without_capabilities(mut opened: Opened, options: &Options) {
    drop_capabilities(Capabilities::ALL).expect("capabilities are dropped");
    assert!(Capabilities::held().expect("capabilities").is_empty());
    assert!(matches!(open(options), Err(OpenError::Missing(missing)) if missing == Capabilities::NEEDED));
    say("ready");
    let link = opened.links.first_mut().expect("a link");
    let came = receive(link);
    let mut resolver = Resolver::open().expect("netlink needs no capability");
    let route = resolved_in_place(&mut resolver, &opened.interface, came.from);
    send(link, &route, &came.payload);
    // Packets are sent within the call, and counters need no capability either.
    assert_eq!(link.counters().expect("counters").sent, 1);
    say("answered");
}

fn say(word: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "{word}").and_then(|()| output.flush()).expect("somebody listens");
}
