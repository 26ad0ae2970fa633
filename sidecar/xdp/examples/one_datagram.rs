//! Sends one UDP payload past the kernel and looks for what has arrived: needs root and a device of that name.

use sealane_xdp::{Options, Resolution, Resolver, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut opened = open(&Options::new("eth0", vec!["10.0.0.1".parse()?], 4789))?;
    let link = opened.links.first_mut().ok_or("no queue")?;
    let found = Resolver::open()?.resolve(&opened.interface, 4789, "10.0.0.2:4789".parse()?)?;
    if let Resolution::Route(route) = found {
        let sealed = [0; 32];
        link.send(&route, sealed.len(), |payload| payload.copy_from_slice(&sealed))?;
        link.flush()?;
    }
    let mut bytes = 0;
    link.receive(64, |arrival| bytes += arrival.payload.len());
    if bytes > 0 { Ok(()) } else { Err("nothing has arrived".into()) }
}
