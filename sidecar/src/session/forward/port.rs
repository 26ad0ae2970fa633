//! Listens on one port of a forward.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    let message = match error.kind() {
        io::ErrorKind::AddrInUse => format!("something else in this pod listens on {address}"),
        _ => format!("{address} cannot be listened on: {error}"),
    };
    (Reason::PortConflict, message)
}

#[cfg(test)]
mod tests {
    use sealane_types::ForwardPort;

    use super::*;
    use crate::desired::Forward;

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
