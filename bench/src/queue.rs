//! AF_XDP between the two hosts of a route.

use anyhow::{Context as _, Result, anyhow};
use sealane_xdp::{Link, MacAddress, Mode, Opened, Options, QueueId};

use crate::programs::{Host, Route};

/// The port of both ends.
const PORT: u16 = 4_789;

/// One host's queue, and the way to the other host.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) link: Link,
    pub(crate) route: sealane_xdp::Route,
}

/// A queue for each host of `route`, in this mode alone.
pub(crate) fn queues(route: &Route, mode: Mode) -> Result<[Queue; 2]> {
    let [one, other] = route.hosts.each_ref().map(|host| open(host, mode));
    let (one, other) = (one?, other?);
    let (here, there) = (one.interface.mac, other.interface.mac);
    let [near, far] = &route.hosts;
    Ok([queue(one, near, far, there)?, queue(other, far, near, here)?])
}

fn open(host: &Host, mode: Mode) -> Result<Opened> {
    let device = host.device().context("AF_XDP needs a network namespace of its own")?;
    let options = Options {
        queues: Some(vec![QueueId::new(0)]),
        modes: Some(vec![mode]),
        ..Options::new(device, vec![host.address], PORT)
    };
    host.visit(|| sealane_xdp::open(&options).map_err(|error| refused(&error)).context("AF_XDP"))
}

/// With the reason of the mode, which is no source of the error.
fn refused(error: &sealane_xdp::OpenError) -> anyhow::Error {
    match error {
        sealane_xdp::OpenError::Refused(modes) => {
            let reasons: Vec<_> = modes.iter().map(ToString::to_string).collect();
            anyhow!("{}", reasons.join("; "))
        }
        other => anyhow!("{other}"),
    }
}

fn queue(opened: Opened, from: &Host, to: &Host, mac: MacAddress) -> Result<Queue> {
    let ends = [from, to].map(|host| (host.address, PORT).into());
    let route = sealane_xdp::Route::to(&opened.interface, ends[0], ends[1], mac)?;
    let link = opened.links.into_iter().next().context("an interface without queues")?;
    Ok(Queue { link, route })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_namespace_there_is_no_queue_and_the_reason_is_told() {
        let error = queues(&Route::loopback(""), Mode::Generic).unwrap_err();
        assert_eq!(error.to_string(), "AF_XDP needs a network namespace of its own");
    }
}
