//! The flood's process, and the socket of the control: it accepts, and closes.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sealane_types::Digest;

use super::child::{self, Child};
use crate::bench::Programs;
use crate::stranger::Tally;

/// A flood under way.
#[derive(Debug)]
pub(crate) struct Generator(Child);

impl Generator {
    pub(crate) fn start(
        programs: &Programs,
        target: SocketAddr,
        rate: u32,
        length: Duration,
        policy: (u64, Digest),
    ) -> Result<Self> {
        let (epoch, digest) = policy;
        let mut command = child::command(&programs.bench);
        command.arg("flood").args(["--target", &target.to_string(), "--rate", &rate.to_string()]);
        command.args(["--milliseconds", &length.as_millis().to_string()]);
        command.args(["--epoch", &epoch.to_string(), "--digest", &digest.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(Self(Child::start(&mut command)?))
    }

    /// Waits for its end.
    pub(crate) fn tally(mut self) -> Result<Tally> {
        let output = self.0.inner().stdout.take().context("no pipe from the flood")?;
        let text = std::io::read_to_string(output)?;
        let status = self.0.inner().wait()?;
        ensure!(status.success(), "the flood ended with {status}");
        serde_json::from_str(&text).with_context(|| format!("the flood said {text:?}"))
    }
}

/// A socket that accepts and closes: what any flood costs whoever listens at all.
#[derive(Debug)]
pub(crate) struct Bystander {
    pub(crate) address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bystander {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let work = move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                drop(stream);
            }
        };
        let thread = std::thread::Builder::new().name("bystander".to_owned()).spawn(work)?;
        Ok(Self { address, over, thread: Some(thread) })
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes it; without a connection it would wait for one.
        if std::net::TcpStream::connect(self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}
