//! Connections from the machine's loopback to the API server, across network namespaces.

use std::{
    fs::File,
    io::{self, ErrorKind},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::place::Place;
use crate::progress::note;

/// The API server, seen from the cluster's network namespace.
const API_SERVER: &str = "127.0.0.1:6443";

/// Relays every connection until the process ends. One thread per direction: kubectl, a few watches and port-forwards
/// are all it ever carries.
pub(super) fn serve(listener: &TcpListener, place: &Place) {
    loop {
        match listener.accept() {
            Ok((client, _)) => {
                let place = place.clone();
                let relay = move || {
                    // Before the API server is there, the client simply sees its connection close.
                    if let Err(error) = dial(&place).and_then(|server| carry(client, server)) {
                        note(&format!("relay: {error:#}"));
                    }
                };
                if let Err(error) = thread::Builder::new().name("relay".to_owned()).spawn(relay) {
                    note(&format!("relay: {error}"));
                }
            }
            // Out of file descriptors, or a client that went away: neither ends the relay.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Moves the calling thread for good; a socket stays in the namespace it was made in.
fn dial(place: &Place) -> Result<TcpStream> {
    let path = format!("/proc/{}/ns/net", place.pid("init")?);
    let namespace = File::open(&path).with_context(|| format!("open {path}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .context("enter the network")?;
    Ok(TcpStream::connect(API_SERVER)?)
}

/// Each side's end of stream is passed on by itself: an upgraded connection may be closed in one direction only.
fn carry(client: TcpStream, server: TcpStream) -> Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let upward = thread::spawn(move || {
        let result = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
        result
    });
    let (mut from_server, mut to_client) = (server, client);
    let downward = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Write);
    let upward = upward.join().unwrap_or(Ok(0));
    match downward.and(upward) {
        Err(error) if !matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}
