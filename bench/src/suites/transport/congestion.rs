//! What each congestion control of the kernel's makes of the same bytes over TCP.

use std::ffi::OsString;
use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use sealane_types::Cipher;

use super::{STREAM_BYTES, caption, connect, whither};
use crate::bench::{Bench, Ran};
use crate::carrier::Carrier;
use crate::contest::{Caption, Contender, hold_all};
use crate::message::Payloads;
use crate::ours::Ours;
use crate::remote;
use crate::row::{Missing, RowId, Unit};
use crate::samples::Burst;
use crate::wire::{Open, Side};
use crate::world::World;

/// The kernel's words, and the one that connections begin with.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const OWN: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const CIPHER: Cipher = Cipher::Aes256Gcm;

/// A contender whose connections run under one congestion control. The end that sends decides.
#[derive(Debug, Clone)]
struct Under<O> {
    contender: O,
    control: OsString,
}

impl<O: Open> Open for Under<O> {
    type Wire = O::Wire;

    async fn open(&self, carrier: Carrier, side: Side) -> Result<O::Wire> {
        if let Carrier::Tcp(stream) = &carrier {
            let control = self.control.display();
            setsockopt(stream, TcpCongestion, &self.control)
                .with_context(|| format!("choosing {control}"))?;
        }
        self.contender.open(carrier, side).await
    }
}

pub(super) fn run(bench: &mut Bench<'_>, world: &Arc<World>) -> Ran {
    let read = |file| fs::read_to_string(file).with_context(|| format!("reading {file}"));
    let (allowed, own) = match (read(ALLOWED), read(OWN)) {
        (Ok(allowed), Ok(own)) => (allowed, own.trim().to_owned()),
        (Err(error), _) | (_, Err(error)) => {
            bench.missing(Missing::new("transport-congestion", format!("{error:#}")));
            return Ok(());
        }
    };
    let mut controls: Vec<_> = allowed.split_whitespace().filter(|control| *control != own).collect();
    controls.insert(0, &own);
    let ids: Vec<_> = controls.iter().map(|control| RowId::new("transport-congestion", control)).collect();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let (payloads, target) = (Payloads::new(STREAM_BYTES), bench.plan.sample);
    let burst = |control: &&str| {
        let contender: Ours = remote::ours(world, CIPHER)?;
        let under = Under { contender, control: control.into() };
        let accepting = remote::Contender::Ours { cipher: CIPHER, world: world.share()? };
        Burst::new(connect(bench, &under, accepting, &payloads)?, STREAM_BYTES, target)
    };
    let bursts = controls.iter().map(burst).collect::<Result<Vec<_>>>()?;
    let contenders: Vec<Contender<'_>> = bursts.iter().map(Burst::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    for ((id, word), ours) in ids.into_iter().zip(&controls).zip(&series) {
        let name = format!("1 MiB one way over TCP {}, {CIPHER}, under the kernel's {word}", whither(bench));
        let row = caption(bench, id, name, Unit::GigabytesPerSecond, None);
        let row = if *word == own {
            row
        } else {
            Caption { peer: Some(format!("the same under {own}, which connections begin with here")), ..row }
        };
        bench.row(row.row(ours, (*word != own).then_some(&series[0]), &control));
    }
    Ok(())
}
