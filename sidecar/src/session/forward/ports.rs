//! Ports of loopback on which forwards of this process listen, and those to which they lead.
//!
//! They are never the same: the sidecar would dial itself, and two forwards that the policy permits would make a third
//! that it does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_types::{ForwardPort, InvalidPort};

/// What a forward does with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Listened,
    Served,
}

/// Uses of ports, and how many claim each.
#[derive(Debug, Default)]
pub(super) struct Ports {
    claims: Mutex<BTreeMap<(Use, ForwardPort), usize>>,
}

/// Why a forward may not use a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortError {
    #[error(transparent)]
    Invalid(#[from] InvalidPort),
    #[error("a forward of this pod leads to port {0}; listen on another, so that no forward leads into one")]
    Served(ForwardPort),
    #[error(
        "a forward of this pod listens on port {0}; choose another target, so that no forward leads into one"
    )]
    Listened(ForwardPort),
}

/// A use of a port, as long as it lives.
#[derive(Debug)]
pub(super) struct Claim {
    ports: Arc<Ports>,
    key: (Use, ForwardPort),
}

impl Ports {
    /// Claims a port to listen on. Claim it before it is listened on, and keep the claim for longer.
    ///
    /// # Errors
    /// [`PortError::Served`]: a forward leads there.
    pub(super) fn listen(self: &Arc<Self>, port: ForwardPort) -> Result<Claim, PortError> {
        let mut claims = self.lock();
        if claims.contains_key(&(Use::Served, port)) {
            return Err(PortError::Served(port));
        }
        Ok(self.claim(&mut claims, (Use::Listened, port)))
    }

    /// Claims a port to lead to: nothing begins to listen on it. Whether something does already, [`Ports::reach`] tells.
    pub(super) fn serve(self: &Arc<Self>, port: ForwardPort) -> Claim {
        self.claim(&mut self.lock(), (Use::Served, port))
    }

    /// Whether a port that is claimed to lead to may be dialled.
    ///
    /// # Errors
    /// [`PortError::Listened`]: it was listened on when it was claimed, and still is.
    pub(super) fn reach(&self, port: ForwardPort) -> Result<(), PortError> {
        if self.lock().contains_key(&(Use::Listened, port)) { Err(PortError::Listened(port)) } else { Ok(()) }
    }

    fn claim(
        self: &Arc<Self>,
        claims: &mut BTreeMap<(Use, ForwardPort), usize>,
        key: (Use, ForwardPort),
    ) -> Claim {
        *claims.entry(key).or_default() += 1;
        Claim { ports: Arc::clone(self), key }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Use, ForwardPort), usize>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.ports.lock();
        if let Some(count) = claims.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                claims.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> ForwardPort {
        ForwardPort::new(8_001).unwrap()
    }

    #[test]
    fn a_port_that_a_forward_leads_to_is_not_listened_on() {
        let ports = Arc::new(Ports::default());
        let served = [ports.serve(port()), ports.serve(port())];
        assert_eq!(ports.reach(port()), Ok(()));
        for claim in served {
            assert_eq!(ports.listen(port()).unwrap_err(), PortError::Served(port()));
            drop(claim);
        }
        let _listened = ports.listen(port()).unwrap();
    }

    #[test]
    fn a_port_that_is_listened_on_is_not_led_to() {
        let ports = Arc::new(Ports::default());
        let listened = ports.listen(port()).unwrap();
        let _served = ports.serve(port());
        assert_eq!(ports.reach(port()), Err(PortError::Listened(port())));
        assert_eq!(ports.reach(port().plus(1).unwrap()), Ok(()));
        drop(listened);
        assert_eq!(ports.reach(port()), Ok(()));
        assert_eq!(ports.listen(port()).unwrap_err(), PortError::Served(port()), "and it stays so");
    }
}
