//! What forwards of this process share: where their local sockets may be, and how many there are.

use std::path::PathBuf;
use std::sync::Arc;

use sealane_protocol::limits;
use sealane_types::{ForwardPort, InvalidPort, SessionName};
use tokio::sync::Semaphore;

use super::address::{Address, make_targets};
use super::budget::Budget;
use super::ports::{Claim, PortError, Ports};
use super::socket_path::socket_path;
use crate::desired::Forward;

/// TCP connections that this process forwards at once, of all sessions. Each takes a descriptor.
const PIPES_MAX: usize = 4096;
const _: () = assert!(limits::PIPES_MAX <= PIPES_MAX / 4, "one replica leaves room for others");
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
    ports: Arc<Ports>,
    pub(super) budget: Arc<Budget>,
    pub(super) pipes: Arc<Semaphore>,
}

impl Premises {
    /// `arena_bytes`: what the tensors of this pod may take, beside which forwards need little.
    pub(crate) fn new(own: Vec<u16>, sockets: Option<PathBuf>, arena_bytes: u64) -> Self {
        Self {
            own,
            sockets,
            ports: Arc::default(),
            budget: Arc::new(Budget::beside(arena_bytes)),
            pipes: Arc::new(Semaphore::new(PIPES_MAX)),
        }
    }

    /// Where the listening side of a forward listens, for the replica of an ordinal if there is one.
    pub(super) fn listening(
        &self,
        session: &SessionName,
        forward: Forward,
        ordinal: Option<u32>,
    ) -> Result<Address, PortError> {
        let port = self.foreign(forward.listen.plus(ordinal.unwrap_or(0))?)?;
        Ok(match &self.sockets {
            None => Address::Port(port),
            Some(directory) => Address::Path(socket_path(&directory.join(LISTENING), session, ordinal)),
        })
    }

    /// Claims an address to listen on, before it is listened on and for longer. Only ports can be those of a server.
    pub(super) fn listen(&self, address: &Address) -> Result<Option<Claim>, PortError> {
        match address {
            Address::Port(port) => self.ports.listen(*port).map(Some),
            Address::Path(_) => Ok(None),
        }
    }

    /// Claims the port of a forward's server for as long as it may be reached.
    pub(super) fn serve(&self, forward: Forward) -> Option<Claim> {
        self.sockets.is_none().then(|| self.ports.serve(forward.target))
    }

    /// Where the serving side of a forward finds its server; its port is claimed.
    pub(super) fn target(&self, session: &SessionName, forward: Forward) -> Result<Address, PortError> {
        let port = self.foreign(forward.target)?;
        Ok(match &self.sockets {
            None => {
                self.ports.reach(port)?;
                Address::Port(port)
            }
            Some(directory) => Address::Path(socket_path(&directory.join(TARGETS), session, None)),
        })
    }

    /// Makes the place for the sockets of servers.
    pub(super) fn prepare(&self) {
        let Some(directory) = self.sockets.as_ref().map(|directory| directory.join(TARGETS)) else { return };
        if let Err(error) = make_targets(&directory) {
            tracing::error!(path = %directory.display(), %error, "there is no place for servers' sockets");
        }
    }

    fn foreign(&self, port: ForwardPort) -> Result<ForwardPort, PortError> {
        let number = port.number();
        if self.own.contains(&number) { Err(InvalidPort::Reserved(number).into()) } else { Ok(port) }
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
        let premises = Premises::new(vec![24_710, 24_711], None, 0);
        let session = "inference".parse().unwrap();
        let target = |target| premises.target(&session, forward(18_001, target));
        let refused = |port| Err(InvalidPort::Reserved(port).into());
        assert_eq!(target(24_711), refused(24_711));
        assert_eq!(target(8_001).unwrap().to_string(), "127.0.0.1:8001");
        let listening = |listen, ordinal| premises.listening(&session, forward(listen, 8_001), ordinal);
        assert_eq!(listening(24_710, None), refused(24_710));
        assert_eq!(listening(24_708, Some(2)), refused(24_710));
        assert_eq!(listening(65_535, Some(1)), Err(InvalidPort::Range.into()));
        assert_eq!(listening(18_001, Some(2)).unwrap().to_string(), "127.0.0.1:18003");
    }

    #[test]
    fn no_forward_leads_into_another() {
        let premises = Premises::new(vec![], None, 0);
        let name = "inference".parse().unwrap();
        let (into, out) = (forward(18_001, 8_001), forward(8_001, 9_001));
        let listened = premises.listening(&name, out, None).unwrap();
        let claim = premises.listen(&listened).unwrap();
        let served = premises.serve(into);
        let port = into.target;
        assert_eq!(premises.target(&name, into), Err(PortError::Listened(port)));
        drop(claim);
        assert!(premises.target(&name, into).is_ok());
        assert_eq!(premises.listen(&listened).unwrap_err(), PortError::Served(port));
        drop(served);
        assert!(premises.listen(&listened).is_ok());
    }

    #[test]
    fn on_the_host_s_network_there_are_sockets_beside_the_door() {
        let premises = Premises::new(vec![], Some("/run/sealane".into()), 0);
        let session = "inference".parse().unwrap();
        let address = |ordinal| premises.listening(&session, forward(18_001, 8_001), ordinal).unwrap();
        assert_eq!(address(None).to_string(), "/run/sealane/forward/inference.sock");
        assert_eq!(address(Some(3)).to_string(), "/run/sealane/forward/inference_3.sock");
        let target = premises.target(&session, forward(18_001, 8_001)).unwrap();
        assert_eq!(target.to_string(), "/run/sealane/target/inference.sock");
        // As long as a name may be.
        let session = "a".repeat(253).parse().unwrap();
        let long = premises.listening(&session, forward(18_001, 8_001), Some(3)).unwrap().to_string();
        let target = premises.target(&session, forward(18_001, 8_001)).unwrap().to_string();
        assert!(long.len() < 108 && target.len() < 108, "{long} {target}");
    }
}
