//! Connections by clients that mean no good: under virtual time one by one, and very many over real sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::body::Bytes;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

/// Longest that a test waits for what comes at once.
const LIMIT: Duration = Duration::from_secs(60);
const LARGE: usize = 1 << 20;

fn router() -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/large", get(|| async { "x".repeat(LARGE) }))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }))
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
        let (places, stop) = (Places::new(Caps { connections: 2, per_source: 2 }), CancellationToken::new());
        let place = places.admit(Ipv4Addr::LOCALHOST.into()).unwrap();
        let timeouts = Timeouts::MANAGEMENT;
        let connection = Connection { place, timeouts, router: router(), stop: stop.clone() };
        let served = tokio::spawn(connection.answer(server));
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
    let _second = client.places.admit(Ipv4Addr::LOCALHOST.into()).unwrap();
    let other = client.places.admit([10, 0, 0, 1].into()).expect("the source with two loses one");
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
    "POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n",
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
    let server = Server::management();
    let places = Arc::clone(&server.places);
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
            assert!(places.taken() <= Caps::MANAGEMENT.connections);
        }
    }
    stop.cancel();
    drop(open);
    timeout(LIMIT, serving).await.unwrap().unwrap();
    assert_eq!(places.taken(), 0);
}
