//! What forwards of this process share: where their local sockets may be, and how many there are.

use std::path::PathBuf;
use std::sync::Arc;

use sealane_types::{ForwardPort, InvalidPort, SessionName};
use tokio::sync::Semaphore;

use super::address::{Address, make_targets};
use super::budget::Budget;
use crate::desired::Forward;

/// TCP connections that this process forwards at once, of all sessions. Each takes a descriptor.
const PIPES_MAX: usize = 4096;
/// Beside the door, where loopback is the node's: sockets of listening sides, and of servers.
const LISTENING: &str = "forward";
/// See [`LISTENING`].
const TARGETS: &str = "target";

/// The pod as forwards see it.
#[derive(Debug)]
pub(crate) struct Premises {
    /// Ports of this process, which no forward may use whatever their numbers.
    own: Vec<u16>,
    /// The door's directory, on a pod of the host's network.
    sockets: Option<PathBuf>,
    pub(super) budget: Arc<Budget>,
    pub(super) pipes: Arc<Semaphore>,
}

impl Premises {
    pub(crate) fn new(own: Vec<u16>, sockets: Option<PathBuf>) -> Self {
        Self { own, sockets, budget: Arc::default(), pipes: Arc::new(Semaphore::new(PIPES_MAX)) }
    }

    /// Where the listening side of a forward listens, for the replica of an ordinal if there is one.
    pub(super) fn listening(
        &self,
        session: &SessionName,
        forward: Forward,
        ordinal: Option<u32>,
    ) -> Result<Address, InvalidPort> {
        let port = self.foreign(forward.listen.plus(ordinal.unwrap_or(0))?)?;
        Ok(match &self.sockets {
            None => Address::Port(port),
            Some(directory) => {
                let ordinal = ordinal.map(|ordinal| format!("-{ordinal}")).unwrap_or_default();
                Address::Path(directory.join(LISTENING).join(format!("{session}{ordinal}.sock")))
            }
        })
    }

    /// Where the serving side of a forward finds its server.
    pub(super) fn target(&self, session: &SessionName, forward: Forward) -> Result<Address, InvalidPort> {
        let port = self.foreign(forward.target)?;
        Ok(match &self.sockets {
            None => Address::Port(port),
            Some(directory) => Address::Path(directory.join(TARGETS).join(format!("{session}.sock"))),
        })
    }

    /// Makes the place for the sockets of servers.
    pub(super) fn prepare(&self) {
        let Some(directory) = self.sockets.as_ref().map(|directory| directory.join(TARGETS)) else { return };
        if let Err(error) = make_targets(&directory) {
            tracing::error!(path = %directory.display(), %error, "there is no place for servers' sockets");
        }
    }

    fn foreign(&self, port: ForwardPort) -> Result<ForwardPort, InvalidPort> {
        if self.own.contains(&port.number()) { Err(InvalidPort::Reserved(port.number())) } else { Ok(port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(listen: u32, target: u32) -> Forward {
        let port = |number| ForwardPort::new(number).unwrap();
        Forward { listen: port(listen), target: port(target), per_replica: false }
    }

    #[test]
    fn ports_of_this_process_are_refused_wherever_they_are() {
        let premises = Premises::new(vec![24_710, 24_711], None);
        let session = "inference".parse().unwrap();
        let target = |target| premises.target(&session, forward(18_001, target));
        assert_eq!(target(24_711), Err(InvalidPort::Reserved(24_711)));
        assert_eq!(target(8_001).unwrap().to_string(), "127.0.0.1:8001");
        let listening = |listen, ordinal| premises.listening(&session, forward(listen, 8_001), ordinal);
        assert_eq!(listening(24_710, None), Err(InvalidPort::Reserved(24_710)));
        assert_eq!(listening(24_708, Some(2)), Err(InvalidPort::Reserved(24_710)));
        assert_eq!(listening(65_535, Some(1)), Err(InvalidPort::Range));
        assert_eq!(listening(18_001, Some(2)).unwrap().to_string(), "127.0.0.1:18003");
    }

    #[test]
    fn on_the_host_s_network_there_are_sockets_beside_the_door() {
        let premises = Premises::new(vec![], Some("/run/sealane".into()));
        let session = "inference".parse().unwrap();
        let address = |ordinal| premises.listening(&session, forward(18_001, 8_001), ordinal).unwrap();
        assert_eq!(address(None).to_string(), "/run/sealane/forward/inference.sock");
        assert_eq!(address(Some(3)).to_string(), "/run/sealane/forward/inference-3.sock");
        let target = premises.target(&session, forward(18_001, 8_001)).unwrap();
        assert_eq!(target.to_string(), "/run/sealane/target/inference.sock");
    }
}
