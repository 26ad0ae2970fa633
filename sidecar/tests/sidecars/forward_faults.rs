//! Forwarded TCP connections when something ends that should not have.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::forward::{
    connect, connect_path, connect_to_be_reset, echo, echoing, exchange, forward, forwarded, free_port,
    listening, measured, refused, reset, server, serving,
};
use crate::support::{Plan, within};

/// A server that hands out what it accepts.
async fn held() -> (u16, TcpListener) {
    let port = free_port();
    (port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap())
}

/// One connection through the forward, seen from both of its ends.
async fn both_ends(listen: u16, server: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = connect(listen).await;
    client.write_all(b"x").await.unwrap();
    let (mut served, _) = within("a connection", server.accept()).await.unwrap();
    assert_eq!(within("a byte", served.read_u8()).await.unwrap(), b'x');
    (client, served)
}

#[tokio::test]
async fn the_loss_of_either_sidecar_resets_both_ends() {
    for lost in ["listening", "serving"] {
        let (target, server) = held().await;
        let (from, to, listen) = forwarded(target);
        let (mut client, mut served) = both_ends(listen, &server).await;
        let rest = match lost {
            "listening" => {
                from.kill();
                to
            }
            _ => {
                to.kill();
                from
            }
        };
        reset(&mut client).await;
        reset(&mut served).await;
        refused(listen).await;
        drop(rest);
    }
}

#[tokio::test]
async fn an_application_that_resets_resets_the_other() {
    let (target, server) = held().await;
    let (_from, _to, listen) = forwarded(target);
    let (client, mut served) = both_ends(listen, &server).await;
    client.set_zero_linger().unwrap();
    drop(client);
    reset(&mut served).await;
    let (mut client, served) = both_ends(listen, &server).await;
    served.set_zero_linger().unwrap();
    drop(served);
    reset(&mut client).await;
}

#[tokio::test]
async fn nobody_listens_before_a_replica_is_connected() {
    let target = server(echo).await;
    let listen = free_port();
    let to = serving(listen, target).start();
    let address = to.address;
    let plan = listening(&[&to], listen, target);
    drop(to.kill());
    let from = plan.start();
    measured(&from, &["sealane_connections_desired{", "sending", " 1"]).await;
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, listen)).await.is_err());
    let to = Plan { listen: address, ..serving(listen, target) }.start();
    let mut stream = echoing(listen).await;
    // It goes, and comes back.
    let plan = to.kill();
    reset(&mut stream).await;
    refused(listen).await;
    let _to = plan.start();
    echoing(listen).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_resets_with_a_reason() {
    let target = free_port();
    let (from, to, listen) = forwarded(target);
    connect_to_be_reset(listen).await;
    measured(&to, &["sealane_pipes_refused_total", "TargetUnreachable", " 1"]).await;
    measured(&from, &["sealane_pipes_reset_total", "TargetUnreachable", " 1"]).await;
    // One that comes later is found, by IPv6 too.
    let listener = TcpListener::bind(("::1", target)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    echoing(listen).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_tried_again() {
    let target = server(echo).await;
    let listen = free_port();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, listen)).await.unwrap();
    let to = serving(listen, target).start();
    let from = listening(&[&to], listen, target).start();
    measured(&from, &["sealane_connections{", "sending", " 1"]).await;
    drop(taken);
    echoing(listen).await;
}

#[tokio::test]
async fn replicas_have_ports_of_their_own() {
    let a = server(|mut stream| async move { stream.write_all(b"a").await.unwrap() }).await;
    let b = server(|mut stream| async move { stream.write_all(b"b").await.unwrap() }).await;
    let listen = loop {
        let (one, other) = (free_port(), free_port());
        if one + 1 == other {
            break one;
        }
    };
    let chain = crate::support::signed(&crate::forward::forwarding(1, &[a.min(b), a.max(b)]), &[1, 2]);
    let each = |target| {
        let forward = sealane_sidecar::desired::Forward { per_replica: true, ..forward(listen, target) };
        Plan { forward: Some(forward), chain: chain.clone(), ..serving(listen, target) }
    };
    let zero = each(a).start();
    let one = Plan { pod: "ranker-1", uid: "s", ..each(b) }.start();
    let forward = each(a).forward;
    let plan =
        |to: &[&crate::support::Sidecar]| Plan { forward, chain: chain.clone(), ..listening(to, listen, a) };
    let from = plan(&[&zero, &one]).start();
    for (port, name) in [(listen, b"a"), (listen + 1, b"b"), (listen, b"a")] {
        let mut answer = Vec::new();
        within("an answer", connect(port).await.read_to_end(&mut answer)).await.unwrap();
        assert_eq!(answer, name);
    }
    from.kill();
    // The configuration confuses them: neither port leads to the wrong pod.
    let from = plan(&[&one, &zero]).start();
    measured(&from, &["sealane_handshakes_total", "refused", "PeerUnknown"]).await;
    for port in [listen, listen + 1] {
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
    }
}

#[tokio::test]
async fn suspension_closes_the_port_and_resets() {
    let (target, server) = held().await;
    let (from, _to, listen) = forwarded(target);
    let (mut client, mut served) = both_ends(listen, &server).await;
    let mut desired = from.plan.desired();
    desired.sessions[0].suspend = true;
    from.apply(desired.clone());
    reset(&mut client).await;
    reset(&mut served).await;
    refused(listen).await;
    desired.sessions[0].suspend = false;
    from.apply(desired.clone());
    let (mut client, mut served) = both_ends(listen, &server).await;
    // Another port is another forward.
    let elsewhere = free_port();
    desired.sessions[0].kind = sealane_sidecar::desired::Kind::Forward(forward(elsewhere, target));
    from.apply(desired.clone());
    reset(&mut client).await;
    reset(&mut served).await;
    let (mut client, mut served) = both_ends(elsewhere, &server).await;
    refused(listen).await;
    desired.sessions.clear();
    from.apply(desired);
    reset(&mut client).await;
    reset(&mut served).await;
    refused(elsewhere).await;
}

#[tokio::test]
async fn draining_lets_what_is_carried_finish() {
    for draining in ["listening", "serving"] {
        let target = server(echo).await;
        let listen = free_port();
        let drain = Duration::from_secs(600);
        let to = Plan { drain, ..serving(listen, target) }.start();
        let from = Plan { drain, ..listening(&[&to], listen, target) }.start();
        let mut stream = echoing(listen).await;
        let rest = match draining {
            "listening" => {
                from.drain();
                refused(listen).await;
                to
            }
            _ => {
                to.drain();
                // New ones are refused there while the old one goes on.
                measured(&from, &["sealane_pipes_opened_total"]).await;
                within("a refusal", async {
                    while let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, listen)).await {
                        let _ = stream.write_all(b"x").await;
                        if stream.read_u8().await.is_err() {
                            break;
                        }
                    }
                })
                .await;
                from
            }
        };
        assert_eq!(exchange(&mut stream, b"still here").await, b"still here");
        stream.shutdown().await.unwrap();
        assert_eq!(within("the end", stream.read(&mut [0])).await.unwrap(), 0);
        refused(listen).await;
        drop(rest);
    }
}

#[tokio::test]
async fn on_the_host_s_network_applications_meet_unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let pod = |name: &str| {
        let place = directory.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    };
    let (near, far) = (pod("near"), pod("far"));
    let (listen, target) = (free_port(), free_port());
    let host =
        |door: &std::path::Path, plan| Plan { host_network: true, door: door.join("door.sock"), ..plan };
    let to = host(&far, serving(listen, target)).start();
    let _from = host(&near, listening(&[&to], listen, target)).start();
    let entry = near.join("forward/inference.sock");
    // The server comes later, and what lies in its place until then is no server.
    let place = far.join("target/inference.sock");
    let elsewhere = UnixListener::bind(far.join("elsewhere.sock")).unwrap();
    std::os::unix::fs::symlink(far.join("elsewhere.sock"), &place).unwrap();
    let mut stream = connect_path(&entry).await;
    let mut rest = Vec::new();
    // There is no reset of unix sockets: it ends, and writing fails.
    let _ = within("the end", stream.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    measured(&to, &["sealane_pipes_refused_total", "TargetUnreachable"]).await;
    drop(elsewhere);
    std::fs::remove_file(&place).unwrap();
    let server = UnixListener::bind(&place).unwrap();
    let mut stream = connect_path(&entry).await;
    stream.write_all(b"question").await.unwrap();
    stream.shutdown().await.unwrap();
    let (mut served, _) = within("a connection", server.accept()).await.unwrap();
    let mut question = String::new();
    within("the question", served.read_to_string(&mut question)).await.unwrap();
    served.write_all(b"answer").await.unwrap();
    drop(served);
    let mut answer = String::new();
    within("the answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
    // Loopback is the node's: nothing of it is used.
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, listen)).await.is_err());
}
