//! Bytes of forwarded TCP connections: both ways, to their ends, under pressure.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use sealane_protocol::limits::PIPES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::forward::{connect, echo, echoing, exchange, forwarded, listening, measured, server, serving};
use crate::forward::{forwarding, free_port};
use crate::support::{Plan, signed, within};

/// Writes `count` bytes that depend on their places, and ends; their hash.
async fn pour(mut into: impl AsyncWrite + Unpin, count: usize, seed: u8) -> Digest {
    let mut hash = Context::new(&SHA256);
    let mut left = count;
    let mut block: Vec<u8> = (0..251_usize * 257).map(|place| (place % 251) as u8 ^ seed).collect();
    while left > 0 {
        let part = &block[..block.len().min(left)];
        hash.update(part);
        into.write_all(part).await.unwrap();
        left -= part.len();
        block[0] = block[0].wrapping_add(1);
    }
    into.shutdown().await.unwrap();
    hash.finish()
}

/// Reads to the end; the hash and the number of bytes.
async fn drain(mut from: impl AsyncRead + Unpin) -> (Digest, usize) {
    let mut hash = Context::new(&SHA256);
    let (mut block, mut count) = (vec![0; 64 << 10], 0);
    loop {
        match from.read(&mut block).await.unwrap() {
            0 => return (hash.finish(), count),
            bytes => {
                hash.update(&block[..bytes]);
                count += bytes;
            }
        }
    }
}

#[tokio::test]
async fn bytes_go_there_and_back() {
    let target = server(echo).await;
    let (from, to, listen) = forwarded(target);
    let mut stream = connect(listen).await;
    for length in [1, 100, 70_000] {
        let bytes: Vec<u8> = (0..length).map(|place| place as u8).collect();
        assert!(exchange(&mut stream, &bytes).await == bytes, "{length}");
    }
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    within("the end", stream.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty());
    for sidecar in [&from, &to] {
        measured(sidecar, &["sealane_pipes_opened_total", "inference", " 1"]).await;
        for way in ["sent", "received"] {
            measured(sidecar, &["sealane_pipe_bytes_total", way, " 70101"]).await;
        }
        let text = sidecar.node.render_metrics().unwrap();
        assert!(!text.contains("sealane_pipes_reset_total"), "{text}");
    }
}

#[tokio::test]
async fn a_client_that_has_ended_its_side_gets_the_whole_answer() {
    // As `shutdown(SHUT_WR)` in HTTP/1.0 clients, and in `nc -N`.
    let answered = Arc::new(Notify::new());
    let asked = Arc::clone(&answered);
    let target = server(move |mut stream| {
        let asked = Arc::clone(&asked);
        async move {
            let mut question = Vec::new();
            stream.read_to_end(&mut question).await.unwrap();
            asked.notified().await;
            pour(stream, 3 << 20, question.len() as u8).await;
        }
    })
    .await;
    let (_from, _to, listen) = forwarded(target);
    let mut stream = connect(listen).await;
    stream.write_all(b"question").await.unwrap();
    stream.shutdown().await.unwrap();
    // Only now does the server answer, on a connection whose other direction is over.
    answered.notify_one();
    let (hash, count) = within("the answer", drain(stream)).await;
    assert_eq!(count, 3 << 20);
    assert_eq!(hash.as_ref(), pour(tokio::io::sink(), 3 << 20, 8).await.as_ref());
}

#[tokio::test]
async fn a_server_that_has_ended_its_side_gets_everything() {
    let (told, mut hashes) = tokio::sync::mpsc::channel(1);
    let target = server(move |mut stream| {
        let told = told.clone();
        async move {
            stream.shutdown().await.unwrap();
            told.send(drain(stream).await).await.unwrap();
        }
    })
    .await;
    let (_from, _to, listen) = forwarded(target);
    let mut stream = connect(listen).await;
    assert_eq!(within("the server's end", stream.read(&mut [0])).await.unwrap(), 0);
    let sent = pour(stream, 3 << 20, 1).await;
    let (hash, count) = within("the hash", hashes.recv()).await.unwrap();
    assert_eq!((hash.as_ref(), count), (sent.as_ref(), 3 << 20));
}

#[tokio::test]
async fn both_sides_may_write_more_than_all_buffers_hold() {
    const BYTES: usize = 48 << 20;
    let target = server(|stream| async move {
        let (from, to) = stream.into_split();
        tokio::join!(pour(to, BYTES, 2), drain(from));
    })
    .await;
    let (_from, _to, listen) = forwarded(target);
    let (reader, writer) = connect(listen).await.into_split();
    let (_, (hash, count)) =
        within("both", async { tokio::join!(pour(writer, BYTES, 1), drain(reader)) }).await;
    assert_eq!(count, BYTES);
    assert_eq!(hash.as_ref(), pour(tokio::io::sink(), BYTES, 2).await.as_ref());
}

#[tokio::test]
async fn a_connection_that_nobody_reads_holds_no_other_back() {
    let target = server(|mut stream| async move {
        if stream.read_u8().await.is_ok_and(|first| first == b's') {
            // Open, and never read again.
            std::future::pending::<()>().await;
        }
        echo(stream).await;
    })
    .await;
    let (_from, _to, listen) = forwarded(target);
    let mut stalled = connect(listen).await;
    stalled.write_all(b"s").await.unwrap();
    let poured = tokio::spawn(async move { stalled.write_all(&vec![7; 256 << 20]).await });
    let mut stream = connect(listen).await;
    stream.write_all(b"e").await.unwrap();
    for round in 0..300_u32 {
        assert_eq!(exchange(&mut stream, &[round as u8; 5000]).await, [round as u8; 5000]);
    }
    assert!(!poured.is_finished(), "back-pressure reaches the application");
    poured.abort();
}

#[tokio::test]
async fn idle_connections_stay_open_and_hold_nobody_back() {
    let target = server(echo).await;
    let (_from, _to, listen) = forwarded(target);
    drop(echoing(listen).await);
    // Before their first byte.
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(connect(listen).await);
    }
    for round in 0..3 {
        let mut busy = echoing(listen).await;
        assert!(exchange(&mut busy, &[7; 200_000]).await == [7; 200_000]);
        // And between their bytes.
        for stream in &mut idle {
            assert_eq!(exchange(stream, &[round; 9]).await, [round; 9]);
        }
    }
}

/// Four descriptors for each of a thousand connections are more than a process has without asking.
fn ask_for_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

#[tokio::test]
async fn a_thousand_connections_at_once_and_a_few_that_wait() {
    ask_for_descriptors();
    let target = server(echo).await;
    let (from, _to, listen) = forwarded(target);
    let mut streams = Vec::new();
    for index in 0..PIPES_MAX as u64 {
        let mut stream = connect(listen).await;
        stream.write_all(&index.to_be_bytes()).await.unwrap();
        streams.push(stream);
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        let answer = within("an answer", stream.read_u64()).await.unwrap();
        assert_eq!(answer, index as u64);
    }
    measured(&from, &["sealane_pipes{", &format!(" {PIPES_MAX}")]).await;
    // No more are carried: the kernel keeps another one, until one of those ends.
    let mut waiting = connect(listen).await;
    waiting.write_all(b"x").await.unwrap();
    measured(&from, &["sealane_pipes_refused_total", "LimitExceeded", " 1"]).await;
    assert_eq!(waiting.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(streams.pop());
    assert_eq!(within("an answer", waiting.read_u8()).await.unwrap(), b'x');
    drop((streams, waiting));
    crate::support::until("the end of all", || {
        let text = from.node.render_metrics().unwrap();
        text.lines().any(|line| line.starts_with("sealane_pipes{") && line.ends_with(" 0"))
    })
    .await;
}

#[tokio::test]
async fn a_quarter_of_a_gigabyte_arrives_unchanged() {
    const BYTES: usize = 256 << 20;
    let (told, mut hashes) = tokio::sync::mpsc::channel(1);
    let target = server(move |mut stream| {
        let told = told.clone();
        async move {
            let (reader, mut writer) = stream.split();
            told.send(drain(reader).await).await.unwrap();
            writer.write_all(b"all").await.unwrap();
        }
    })
    .await;
    let (_from, _to, listen) = forwarded(target);
    let (mut reader, writer) = connect(listen).await.into_split();
    let sent = within("all bytes", pour(writer, BYTES, 3)).await;
    let (hash, count) = within("the hash", hashes.recv()).await.unwrap();
    assert_eq!((hash.as_ref(), count), (sent.as_ref(), BYTES));
    let mut answer = String::new();
    within("the answer", reader.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "all");
}

/// Says who it is, then keeps the connection.
async fn name(mut stream: TcpStream, name: u8) {
    stream.write_u8(name).await.unwrap();
    let _ = stream.read_u8().await;
}

#[tokio::test]
async fn a_connection_goes_to_the_replica_with_the_fewest() {
    let (a, b) = (server(|stream| name(stream, b'a')).await, server(|stream| name(stream, b'b')).await);
    let listen = free_port();
    let chain = signed(&forwarding(1, &[a.min(b), a.max(b)]), &[1, 2]);
    let one = Plan { chain: chain.clone(), ..serving(listen, a) }.start();
    let other = Plan { chain: chain.clone(), pod: "ranker-1", uid: "s", ..serving(listen, b) }.start();
    let from = Plan { chain, ..listening(&[&one, &other], listen, a) }.start();
    measured(&from, &["sealane_connections{", "sending", " 2"]).await;
    let mut held = [Vec::new(), Vec::new()];
    for _ in 0..6 {
        let mut stream = connect(listen).await;
        let who = within("a name", stream.read_u8()).await.unwrap();
        held[usize::from(who == b'b')].push(stream);
    }
    assert_eq!((held[0].len(), held[1].len()), (3, 3));
    held[0].clear();
    measured(&from, &["sealane_pipes{", " 3"]).await;
    for _ in 0..3 {
        let mut stream = connect(listen).await;
        assert_eq!(within("a name", stream.read_u8()).await.unwrap(), b'a');
        held[0].push(stream);
    }
}

#[tokio::test]
#[ignore = "measures, and takes a few seconds"]
#[expect(clippy::print_stdout, reason = "its only result is what it prints")]
async fn forward_speed() {
    const BYTES: usize = 2 << 30;
    let target = server(|mut stream| async move {
        let mut block = vec![0; 256 << 10];
        while stream.read(&mut block).await.is_ok_and(|bytes| bytes > 0) {}
        let _ = stream.write_all(b"done").await;
    })
    .await;
    let (_from, _to, listen) = forwarded(target);
    drop(connect(listen).await);
    for round in 0..3 {
        for (what, port) in [("plain", target), ("forward", listen)] {
            let stream = connect(port).await;
            let took = std::thread::spawn(move || {
                let mut stream = {
                    let stream = stream.into_std().unwrap();
                    stream.set_nonblocking(false).unwrap();
                    stream
                };
                let began = std::time::Instant::now();
                let block = vec![7; 256 << 10];
                for _ in 0..BYTES / block.len() {
                    std::io::Write::write_all(&mut stream, &block).unwrap();
                }
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
                began.elapsed()
            });
            while !took.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let seconds = took.join().unwrap().as_secs_f64();
            println!("{round} {what}: {:.2} GB/s", BYTES as f64 / seconds / 1e9);
        }
    }
}
