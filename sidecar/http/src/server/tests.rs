//! Connections by clients that mean no good: under virtual time one by one, and very many over real sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::body::Bytes;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::places::Caps;

/// Longest that a test waits for what comes at once.
const LIMIT: Duration = Duration::from_secs(60);
const LARGE: usize = 1 << 20;

/// As for probes and metrics, but with bodies.
const BOUNDS: Bounds = Bounds { bodies: Caps { total: 64, per_source: 32 }, ..Bounds::MANAGEMENT };

fn router() -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/large", get(|| async { "x".repeat(LARGE) }))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/pieces", post(pieces))
}

/// In how many pieces the body comes.
async fn pieces(mut body: Body) -> String {
    let mut pieces = 0;
    while body.frame().await.is_some() {
        pieces += 1;
    }
    pieces.to_string()
}

/// One connection, and the client's end of it.
struct Client {
    io: DuplexStream,
    served: JoinHandle<()>,
    began: Instant,
    places: Arc<Places>,
    stop: CancellationToken,
}

impl Client {
    fn new() -> Self {
        let (io, server) = duplex(512);
        let (places, stop) = (Places::new(Caps { total: 2, per_source: 2 }), CancellationToken::new());
        let place = places.admit(Ipv4Addr::LOCALHOST.into(), 1).unwrap();
        let (bounds, bodies) = (BOUNDS, Places::new(BOUNDS.bodies));
        let connection = Connection { place, bounds, bodies, router: router(), stop: stop.clone() };
        let activity = Arc::new(Activity::new(BOUNDS.timeouts));
        let served = tokio::spawn(connection.answer(server, activity));
        Self { io, served, began: Instant::now(), places, stop }
    }

    async fn say(&mut self, text: &str) {
        self.io.write_all(text.as_bytes()).await.unwrap();
    }

    /// The answer to what was said, as far as its first 512 bytes.
    async fn heard(&mut self) -> String {
        let mut bytes = [0; 512];
        let read = self.io.read(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    /// Seconds until the server ends the connection.
    async fn lasts(&mut self) -> u64 {
        (&mut self.served).await.unwrap();
        assert_eq!(self.places.taken(), 0);
        self.began.elapsed().as_secs()
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_is_left_after_the_time_of_a_header() {
    assert_eq!(Client::new().lasts().await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_comes_byte_by_byte_is_not_waited_for() {
    let mut client = Client::new();
    client.say("GET /healthz HTTP/1.1\r\nHost: x\r\nX: ").await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // The server is gone in the end.
        let _ = client.io.write_all(b"a").await;
    }
    assert!(client.served.is_finished());
    assert_eq!(client.places.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_header_without_an_end_is_refused() {
    let mut client = Client::new();
    client.say("GET /healthz HTTP/1.1\r\nHost: x\r\nX: ").await;
    let more = "a".repeat(256);
    for _ in 0..2 * HEADER_BYTES_MAX / more.len() {
        if client.io.write_all(more.as_bytes()).await.is_err() {
            break;
        }
    }
    assert_eq!(client.lasts().await, 0, "at once, whatever time there is left");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let mut client = Client::new();
    client.say("POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1234").await;
    let answer = client.heard().await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(client.began.elapsed().as_secs(), 10);
    client.lasts().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_idle_and_then_ask_again() {
    let mut client = Client::new();
    for pause in [0, 70, 70] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        client.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let answer = client.heard().await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(client.lasts().await, 140 + 75);
    // The time of a header counts from its first byte, not from the request before it.
    let mut client = Client::new();
    client.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    client.heard().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    client.say("GET /healthz").await;
    assert_eq!(client.lasts().await, 25);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_given_up() {
    let mut client = Client::new();
    client.say("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(client.lasts().await, 10);
    // One that is read slowly is not.
    let mut client = Client::new();
    client.say("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let mut read = 0;
    while read < LARGE {
        read += client.heard().await.len();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(client.lasts().await >= 20);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_to_another_ends_the_connection() {
    let mut client = Client::new();
    let _second = client.places.admit(Ipv4Addr::LOCALHOST.into(), 1).unwrap();
    let other = client.places.admit([10, 0, 0, 1].into(), 1).expect("the source with two loses one");
    (&mut client.served).await.unwrap();
    drop(other);
    assert_eq!(client.places.taken(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_answered_is_answered_before_the_end() {
    let mut client = Client::new();
    client.say("POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.say("67890").await;
    let answer = client.heard().await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n10"), "{answer}");
    assert_eq!(client.lasts().await, 2);
}

/// Whoever holds connections open, and how.
const HOSTILE: [&str; 5] = [
    // Says nothing.
    "",
    "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ",
    "POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 32768\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
];

async fn connect(source: IpAddr, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source, 0)).unwrap();
    socket.connect(server).await.unwrap()
}

/// Whether the server has ended it.
fn is_over(stream: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

#[tokio::test]
async fn two_thousand_hostile_connections_keep_nobody_out() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(BOUNDS);
    let (places, bodies) = (Arc::clone(&server.connections), Arc::clone(&server.bodies));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let serving = tokio::spawn(async move { server.serve(listener, &router(), stopped).await });
    let mut open = Vec::new();
    for number in 0..2_000_u32 {
        let source = Ipv4Addr::from(0x7f01_0000 + 1 + number % 20);
        let mut stream = connect(source.into(), address).await;
        // One that was turned away may be over by now.
        let _ = stream.write_all(HOSTILE[number as usize % HOSTILE.len()].as_bytes()).await;
        open.push(stream);
        if number % 200 == 199 {
            open.retain(|stream| !is_over(stream));
            let mut honest = connect(Ipv4Addr::LOCALHOST.into(), address).await;
            honest.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            timeout(LIMIT, honest.read_to_string(&mut answer)).await.unwrap().unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{number}: {answer}");
            assert!(places.taken() <= BOUNDS.connections.total && bodies.taken() <= BOUNDS.bodies.total);
        }
    }
    stop.cancel();
    drop(open);
    timeout(LIMIT, serving).await.unwrap().unwrap();
    assert_eq!(places.taken(), 0);
}

/// Connections from loopback addresses 127.1.0.N to one server.
struct Running {
    address: SocketAddr,
    bodies: Arc<Places>,
    serving: JoinHandle<()>,
    stop: CancellationToken,
}

impl Running {
    async fn start(server: Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (address, bodies) = (listener.local_addr().unwrap(), Arc::clone(&server.bodies));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serving = tokio::spawn(async move { server.serve(listener, &router(), stopped).await });
        Self { address, bodies, serving, stop }
    }

    async fn ask(&self, source: u8, request: &str) -> TcpStream {
        let mut stream = connect(Ipv4Addr::new(127, 1, 0, source).into(), self.address).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(LIMIT, self.serving).await.unwrap().unwrap();
    }
}

/// The first line of the answer; empty where the connection ended without one.
async fn status(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset is an end, too.
    let _ = timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap().lines().next().unwrap_or_default().to_owned()
}

fn post_of(length: usize) -> String {
    format!("POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
}

#[tokio::test]
async fn room_for_a_body_is_taken_before_it_is_read_and_shared_fairly() {
    let running = Running::start(Server::new(BOUNDS)).await;
    let large = running.ask(1, &post_of((32 << 10) + 1)).await;
    assert_eq!(status(large).await, "HTTP/1.1 413 Payload Too Large");
    let mut slow = Vec::new();
    for source in [1, 2] {
        slow.push(running.ask(source, &post_of(32 << 10)).await);
    }
    timeout(LIMIT, async {
        while running.bodies.taken() < 64 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let body = "x".repeat(3 << 10);
    let small = running.ask(3, &(post_of(body.len()) + &body)).await;
    assert_eq!(status(small).await, "HTTP/1.1 200 OK", "a small one is answered whoever holds the rest");
    let evicted = slow.iter().filter(|stream| is_over(stream)).count();
    assert!(evicted <= 1);
    drop(slow);
    running.end().await;
}

#[tokio::test]
async fn only_named_sources_may_connect() {
    let named = vec!["127.1.0.8/29".parse().unwrap()];
    let running = Running::start(Server::new(BOUNDS).only(named)).await;
    const ASK: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for (source, expected) in [(7, ""), (8, "HTTP/1.1 200 OK"), (15, "HTTP/1.1 200 OK"), (16, "")] {
        let mut stream = connect(Ipv4Addr::new(127, 1, 0, source).into(), running.address).await;
        // One that was turned away may be over by now.
        let _ = stream.write_all(ASK.as_bytes()).await;
        assert_eq!(status(stream).await, expected, "{source}");
    }
    running.end().await;
}

/// A handshake that never ends.
#[derive(Debug, Clone)]
struct Endless;

impl Secure for Endless {
    type Io = TcpStream;

    async fn secure(&self, _: TcpStream) -> io::Result<TcpStream> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_a_place_and_a_time() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let (places, began) = (Places::new(BOUNDS.connections), Instant::now());
    let place = places.admit(Ipv4Addr::LOCALHOST.into(), 1).unwrap();
    let (bodies, stop) = (Places::new(BOUNDS.bodies), CancellationToken::new());
    let connection = Connection { place, bounds: BOUNDS, bodies, router: router(), stop };
    connection.secured(Endless, stream).await;
    assert_eq!((began.elapsed().as_secs(), places.taken()), (5, 0));
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn notices_are_few() {
    let mut notices = Notices::default();
    assert!(notices.next() && !notices.next());
    tokio::time::advance(NOTICE_INTERVAL).await;
    assert!(notices.next() && !notices.next());
}

#[tokio::test]
async fn a_body_comes_in_one_piece_however_it_was_cut() {
    let running = Running::start(Server::new(BOUNDS)).await;
    let head = "POST /pieces HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (bytes, expected) in [(1_000, "\r\n\r\n1"), ((32 << 10) + 1, "413 Payload Too Large\r\n")] {
        let mut stream = running.ask(1, head).await;
        // One that was turned away may be over by now.
        let _ = stream.write_all(("1\r\na\r\n".repeat(bytes) + "0\r\n\r\n").as_bytes()).await;
        let mut answer = vec![0; 512];
        let mut read = 0;
        while let Ok(more @ 1..) = timeout(LIMIT, stream.read(&mut answer[read..])).await.unwrap() {
            read += more;
        }
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.contains(expected), "{answer}");
    }
    running.end().await;
}
