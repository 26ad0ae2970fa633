//! A TCP port of a pod on one node, reached on 127.0.0.1 of a pod on the other.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, forward, until};
use serde_json::{Value, json};

/// An HTTP server that knows nothing of Sealane.
const SERVER: &str = r#"
import hashlib, http.server, itertools

class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            for n in itertools.count():
                self.wfile.write(n.to_bytes(8, "big") * 512)
        self.answer(hashlib.sha256(self.path.encode()).digest() * 500_000)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(hashlib.sha256(body).hexdigest().encode())

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", 8001), Handler).serve_forever()
"#;

/// A client that knows nothing of Sealane either.
const CLIENT: &str = r#"
import concurrent.futures, hashlib, socket, time, urllib.request

PORT = 18001
def fetch(path):
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=60) as answer:
        assert answer.read() == hashlib.sha256(path.encode()).digest() * 500_000, path

# Refused until a replica is attested, reset until the server in it listens.
deadline = time.monotonic() + 120
while True:
    try:
        fetch("/ready")
        break
    except OSError as error:
        assert time.monotonic() < deadline, error
        time.sleep(0.2)

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    list(pool.map(fetch, [f"/{n}" for n in range(24)]))
body = bytes(range(256)) * 40_000
with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", data=body, timeout=60) as answer:
    assert answer.read().decode() == hashlib.sha256(body).hexdigest()

# A client may end its own direction and still gets the whole answer.
half = socket.create_connection(("127.0.0.1", PORT), timeout=60)
half.sendall(b"GET /half HTTP/1.0\r\n\r\n")
half.shutdown(socket.SHUT_WR)
whole = b"".join(iter(lambda: half.recv(1 << 16), b""))
assert whole.endswith(hashlib.sha256(b"/half").digest() * 500_000)
print("fetched everything", flush=True)

# A connection that is cut is a reset, and never the end of an answer.
endless = socket.create_connection(("127.0.0.1", PORT), timeout=120)
endless.sendall(b"GET /endless HTTP/1.0\r\n\r\n")
taken = 0
try:
    while data := endless.recv(1 << 16):
        if taken < 1 << 20 <= taken + len(data):
            print("streaming", flush=True)
        taken += len(data)
    print("took a cut for an end", flush=True)
except ConnectionResetError:
    print("reset after", taken, "bytes", flush=True)
"#;

async fn started(sandbox: &Sandbox, edit: impl FnOnce(&mut Value)) -> Result<()> {
    sandbox.apply(forward("lane", "client", "server", 18001, 8001)).await?;
    let trust = sandbox.policy(Signing::Quorum, edit).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(&Workload::new("server", "node2", SERVER)).await?;
    sandbox.start(&Workload::new("client", "node1", CLIENT)).await
}

#[tokio::test]
async fn e2e_forward_carries_http_and_a_cut_is_a_reset() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("forward").await?;
    started(&sandbox, |_| {}).await?;
    sandbox.condition("transfersession/lane", "Ready", "True").await?;
    sandbox.printed("client", "fetched everything").await?;
    sandbox.printed("client", "streaming").await?;
    until("the session says what it carried", || async {
        let seen = sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
        let status = &seen["status"];
        let (forwarded, bytes) = (status["forwarded"].as_u64(), status["bytesTransferred"].as_u64());
        // 28 requests, most of 16 MB; attempts before the server listened count as well.
        if forwarded >= Some(28) && bytes >= Some(400_000_000) { Ok(()) } else { Err(status.to_string()) }
    })
    .await?;
    sandbox.kill("server", "sealane").await?;
    let log = sandbox.finish("client").await?;
    ensure!(log.contains("reset after"), "{log}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_forward_to_a_port_that_the_owners_did_not_sign_is_refused() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("forward-port").await?;
    started(&sandbox, |draft| draft["sessions"][0]["forward"]["targets"] = json!([8002])).await?;
    until("the refusal is told", || async {
        let seen = sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
        let conditions = seen["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let refused = |condition: &Value| {
            condition["type"] == "Ready"
                && condition["status"] == "False"
                && condition["reason"] == "SessionNotInPolicy"
        };
        if conditions.iter().any(refused) { Ok(()) } else { Err(seen["status"].to_string()) }
    })
    .await?;
    sandbox.kubectl(&["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"]).await?;
    let log = sandbox.kubectl(&["logs", "client", "-c", "program"]).await?;
    ensure!(!log.contains("fetched"), "{log}");
    sandbox.remove().await
}
