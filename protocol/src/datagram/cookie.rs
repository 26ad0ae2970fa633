//! Proof that whoever begins a handshake receives what is sent to its address, at no cost in memory.

use std::net::{IpAddr, SocketAddr};

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use subtle::ConstantTimeEq;

use crate::Moment;
use crate::keys::{Random, RandomFailed, Secret};
use crate::limits::COOKIE_MICROS_MAX;
use crate::record::ConnectionId;

/// When it was made, and a MAC of half its length.
pub(crate) const COOKIE_BYTES: usize = 20;
const MAC_BYTES: usize = 16;
const MICROS_PER_MILLI: u64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cookie(pub(crate) [u8; COOKIE_BYTES]);

/// Makes cookies and knows them again. Another process makes others.
pub(crate) struct Cookies(Key);

impl Cookies {
    pub(crate) fn new(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        let secret = Secret::<32>::random(random)?;
        Ok(Self(Key::new(HMAC_SHA256, secret.expose())))
    }

    pub(crate) fn make(&self, source: SocketAddr, id: ConnectionId, now: Moment) -> Cookie {
        let time = millis(now).to_be_bytes();
        let mut cookie = [0; COOKIE_BYTES];
        let (head, mac) = cookie.split_at_mut(4);
        head.copy_from_slice(&time);
        mac.copy_from_slice(&self.mac(source, id, time));
        Cookie(cookie)
    }

    /// Whether `cookie` was made here for this source and connection, a short while ago.
    pub(crate) fn is_good(&self, cookie: Cookie, source: SocketAddr, id: ConnectionId, now: Moment) -> bool {
        let Some((time, mac)) = cookie.0.split_first_chunk::<4>() else { return false };
        let age = millis(now).wrapping_sub(u32::from_be_bytes(*time));
        let fresh = u64::from(age).saturating_mul(MICROS_PER_MILLI) <= COOKIE_MICROS_MAX;
        fresh && bool::from(self.mac(source, id, *time).ct_eq(mac))
    }

    fn mac(&self, source: SocketAddr, id: ConnectionId, time: [u8; 4]) -> [u8; MAC_BYTES] {
        let address = match source.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let said = [&time[..], &address, &source.port().to_be_bytes(), &id.0].concat();
        let mut mac = [0; MAC_BYTES];
        mac.iter_mut().zip(sign(&self.0, &said).as_ref()).for_each(|(byte, full)| *byte = *full);
        mac
    }
}

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookies(redacted)")
    }
}

/// Wraps around in 49 days, which is longer than any cookie is good.
fn millis(now: Moment) -> u32 {
    let [_, _, _, _, low @ ..] = (now.as_micros() / MICROS_PER_MILLI).to_be_bytes();
    u32::from_be_bytes(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same(u8);

    impl Random for Same {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    #[test]
    fn it_is_good_for_its_source_its_connection_and_a_short_while() {
        let cookies = Cookies::new(&mut Same(1)).unwrap();
        let (source, id) = ("10.0.0.1:5".parse().unwrap(), ConnectionId([7; 8]));
        // Close to where the milliseconds wrap around.
        let now = Moment::from_micros((u64::from(u32::MAX) - 3) * MICROS_PER_MILLI);
        let cookie = cookies.make(source, id, now);
        assert!(cookies.is_good(cookie, source, id, now));
        assert!(cookies.is_good(cookie, source, id, now.plus_micros(COOKIE_MICROS_MAX)));
        assert!(!cookies.is_good(cookie, source, id, now.plus_micros(COOKIE_MICROS_MAX + 1_000)));
        assert!(!cookies.is_good(cookie, "10.0.0.1:6".parse().unwrap(), id, now));
        assert!(!cookies.is_good(cookie, "10.0.0.2:5".parse().unwrap(), id, now));
        assert!(!cookies.is_good(cookie, source, ConnectionId([8; 8]), now));
        assert!(!Cookies::new(&mut Same(2)).unwrap().is_good(cookie, source, id, now));
        for at in 0..COOKIE_BYTES {
            let mut other = cookie;
            other.0[at] ^= 1;
            assert!(!cookies.is_good(other, source, id, now), "byte {at}");
        }
    }
}
