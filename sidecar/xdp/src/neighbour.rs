//! The MAC address of a machine on the same Ethernet: `RTM_GETNEIGH` (linux/neighbour.h).

use std::net::IpAddr;

use crate::interface::InterfaceIndex;
use crate::netlink::{AskError, Malformed, Message, Netlink, Request};
use crate::packet::MacAddress;

/// `struct ndmsg`
const FIXED_BYTES: usize = 12;

/// What the kernel knows of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// Its address, confirmed lately.
    Fresh(MacAddress),
    /// Its address as it was when last confirmed.
    Stale(MacAddress),
    /// Nothing, or that nobody answered.
    Unknown,
}

/// Looks a neighbour up.
pub(crate) fn find(
    netlink: &mut Netlink,
    interface: InterfaceIndex,
    address: IpAddr,
) -> Result<Neighbour, AskError> {
    let mut fixed = [0; FIXED_BYTES];
    fixed[0] = match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    };
    fixed[4..8].copy_from_slice(&interface.number().to_ne_bytes());
    match netlink.ask(&Request::new(libc::RTM_GETNEIGH, &fixed).address(libc::NDA_DST, address)) {
        Ok(message) => Ok(parse(&message)?),
        Err(error) if error.is(libc::ENOENT) => Ok(Neighbour::Unknown),
        Err(error) => Err(error),
    }
}

fn parse(message: &Message<'_>) -> Result<Neighbour, Malformed> {
    if message.kind != libc::RTM_NEWNEIGH {
        return Err(Malformed);
    }
    let (fixed, mut attributes) = message.split::<FIXED_BYTES>()?;
    let [_, _, _, _, _, _, _, _, low, high, ..] = *fixed;
    let state = u16::from_ne_bytes([low, high]);
    let mac = attributes.try_fold(None, |mac, attribute| {
        let (kind, value) = attribute?;
        Ok(if kind == libc::NDA_LLADDR { <[u8; 6]>::try_from(value).ok() } else { mac })
    })?;
    let mac = mac.map(MacAddress::new).filter(|mac| mac.is_unicast());
    // The states of `NUD_VALID` in include/net/neighbour.h.
    const FRESH: u16 = libc::NUD_REACHABLE | libc::NUD_PERMANENT | libc::NUD_NOARP;
    const STALE: u16 = libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE;
    Ok(match mac {
        Some(mac) if state & FRESH != 0 => Neighbour::Fresh(mac),
        Some(mac) if state & STALE != 0 => Neighbour::Stale(mac),
        _ => Neighbour::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::answer;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

    fn parsed(state: u16, mac: &[u8]) -> Result<Neighbour, Malformed> {
        let mut fixed = [0; FIXED_BYTES];
        fixed[8..10].copy_from_slice(&state.to_ne_bytes());
        parse(&Message::parse(&answer(libc::RTM_NEWNEIGH, &fixed, &[(libc::NDA_LLADDR, mac)])).unwrap())
    }

    #[test]
    fn an_address_counts_only_in_a_state_that_has_one() {
        let mac = MacAddress::new(MAC);
        assert_eq!(parsed(libc::NUD_REACHABLE, &MAC), Ok(Neighbour::Fresh(mac)));
        assert_eq!(parsed(libc::NUD_PERMANENT, &MAC), Ok(Neighbour::Fresh(mac)));
        assert_eq!(parsed(libc::NUD_STALE, &MAC), Ok(Neighbour::Stale(mac)));
        for state in [libc::NUD_INCOMPLETE, libc::NUD_FAILED, 0] {
            assert_eq!(parsed(state, &MAC), Ok(Neighbour::Unknown));
        }
        assert_eq!(parsed(libc::NUD_REACHABLE, &MAC[..5]), Ok(Neighbour::Unknown));
        assert_eq!(parsed(libc::NUD_REACHABLE, &[0xff; 6]), Ok(Neighbour::Unknown));
        assert_eq!(
            parse(&Message::parse(&answer(libc::RTM_NEWLINK, &[0; 12], &[])).unwrap()),
            Err(Malformed)
        );
    }
}
