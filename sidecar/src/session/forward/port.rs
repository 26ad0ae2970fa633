//! Listens on one port of a forward.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;
use sealane_types::Reason;
use tokio::sync::watch;

use super::address::{Address, Listener};
use super::listening::Listening;
use super::ports::Claim;
use super::premises::Premises;

/// First wait after an address could not be listened on.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest wait: an application that held the port may be gone.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Wait after the kernel gave no connection, which it does when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A port that is listened on.
struct Open {
    listener: Listener,
    claim: Option<Claim>,
}

impl Open {
    fn bind(premises: &Premises, address: &Address) -> Result<Self, (Reason, String)> {
        let claim =
            premises.listen(address).map_err(|problem| (Reason::PortReserved, problem.to_string()))?;
        let listener = Listener::bind(address).map_err(|error| refused(address, &error))?;
        Ok(Self { listener, claim })
    }
}

/// Listens for the replica of an ordinal, or for any, until the task is dropped.
pub(super) async fn serve(listening: Weak<Listening>, ordinal: Option<u32>) {
    let address = match listening.upgrade().map(|listening| listening.listening_address(ordinal)) {
        Some(Ok(address)) => address,
        Some(Err(problem)) => return told(&listening, ordinal, Some(problem)),
        None => return,
    };
    let mut wait = RETRY_MIN;
    let Open { listener, claim: _claim } = loop {
        let Some(premises) = listening.upgrade().map(|listening| Arc::clone(listening.premises())) else {
            return;
        };
        match Open::bind(&premises, &address) {
            Ok(open) => break open,
            Err(problem) => told(&listening, ordinal, Some(problem)),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    };
    told(&listening, ordinal, None);
    tracing::info!(%address, "a forward listens");
    while let Some(news) = listening.upgrade().map(|listening| listening.changes()) {
        room(&listening, ordinal, news).await;
        match listener.accept().await {
            Ok(socket) => {
                let Some(listening) = listening.upgrade() else { return };
                // An error would mean that the semaphore was closed, which it never is.
                let Ok(permit) = Arc::clone(&listening.premises().pipes).acquire_owned().await else {
                    return;
                };
                listening.give(ordinal, socket, permit);
            }
            Err(error) => {
                tracing::warn!(%address, %error, "no TCP connection can be accepted");
                if let Some(listening) = listening.upgrade() {
                    listening.refused(Reason::LimitExceeded);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits until a TCP connection could be carried; meanwhile the kernel keeps those that come.
async fn room(listening: &Weak<Listening>, ordinal: Option<u32>, mut news: watch::Receiver<u64>) {
    let mut said = false;
    loop {
        news.mark_unchanged();
        let Some(session) = listening.upgrade() else { return };
        let pipes = Arc::clone(&session.premises().pipes);
        let process = pipes.available_permits() > 0;
        if process && session.has_room(ordinal) {
            return;
        }
        if !std::mem::replace(&mut said, true) {
            session.is_full();
        }
        drop(session);
        if process {
            // An error means that the session is over, which the next look shows.
            let _ = news.changed().await;
        } else {
            drop(pipes.acquire().await);
        }
    }
}

fn told(listening: &Weak<Listening>, ordinal: Option<u32>, problem: Option<(Reason, String)>) {
    if let Some(listening) = listening.upgrade() {
        listening.port_is(ordinal, problem);
    }
}

fn refused(address: &Address, error: &io::Error) -> (Reason, String) {
    if error.kind() == io::ErrorKind::AddrInUse {
        return (Reason::PortConflict, format!("something else in this pod listens on {address}"));
    }
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].map(Errno::raw_os_error);
    let reason = match error.raw_os_error() {
        Some(code) if exhausted.contains(&code) => Reason::LimitExceeded,
        _ => Reason::ListenFailed,
    };
    (reason, format!("{address} cannot be listened on: {error}"))
}

#[cfg(test)]
mod tests {
    use sealane_types::ForwardPort;

    use super::*;
    use crate::desired::Forward;

    #[test]
    fn only_an_address_that_is_taken_is_a_conflict() {
        let address = Address::Path("/run/sealane/forward/inference.sock".into());
        for (code, reason) in [
            (Errno::ADDRINUSE, Reason::PortConflict),
            (Errno::MFILE, Reason::LimitExceeded),
            (Errno::ACCESS, Reason::ListenFailed),
            (Errno::NAMETOOLONG, Reason::ListenFailed),
            (Errno::ROFS, Reason::ListenFailed),
        ] {
            let (told, message) = refused(&address, &io::Error::from_raw_os_error(code.raw_os_error()));
            assert_eq!(told, reason, "{code}");
            assert!(message.contains("inference.sock"), "{message}");
        }
        // A path that is too long is no error of the kernel's.
        let long = Address::Path(format!("/{}", "a".repeat(200)).into());
        let error = io::Error::from(io::ErrorKind::InvalidInput);
        assert_eq!(refused(&long, &error).0, Reason::ListenFailed);
    }

    #[tokio::test]
    async fn nothing_listens_where_a_forward_of_this_pod_leads() {
        // A port that nobody has at this moment.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = ForwardPort::new(free.into()).unwrap();
        let premises = Premises::new(vec![], None, 0);
        let served = premises.serve(Forward { listen: port, target: port, per_replica: false });
        let refused = || Open::bind(&premises, &Address::Port(port)).map(drop).map_err(|(reason, _)| reason);
        assert_eq!(refused(), Err(Reason::PortReserved));
        drop(served);
        assert_ne!(refused(), Err(Reason::PortReserved));
    }
}
