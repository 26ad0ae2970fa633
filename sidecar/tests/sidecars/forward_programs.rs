//! Real programs that know nothing of Sealane: Python's HTTP server and client.

use std::process::Stdio;

use sealane_fixtures::skip;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::forward::{connect, forwarded, free_port};
use crate::support::within;

const SERVER: &str = r#"
import hashlib, http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.answer(hashlib.sha256(body).hexdigest().encode() * 1000)

    def do_GET(self):
        # Its end is the end of the connection, as in HTTP/1.0.
        self.send_response(200)
        self.send_header("connection", "close")
        self.end_headers()
        for part in range(64):
            self.wfile.write(bytes([part]) * 65536)
        self.close_connection = True

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
"#;

const CLIENT: &str = r#"
import hashlib, http.client, sys, threading, urllib.request

url = f"http://127.0.0.1:{sys.argv[1]}/"
whole = b"".join(bytes([part]) * 65536 for part in range(64))
failures = []

def ask(number):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
        for size in (0, 10, 100_000, 3_000_000):
            body = bytes([number]) * size
            connection.request("POST", "/", body)
            answer = connection.getresponse().read()
            assert answer == hashlib.sha256(body).hexdigest().encode() * 1000, size
        connection.close()
        assert urllib.request.urlopen(url, timeout=60).read() == whole
    except Exception as error:
        failures.append(repr(error))

threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
print("well", flush=True)
"#;

#[tokio::test]
async fn http_goes_through_unchanged() {
    let target = free_port();
    let python = |program: &str, port: u16| {
        let mut command = Command::new("python3");
        command.args(["-c", program, &port.to_string()]).stdout(Stdio::piped()).kill_on_drop(true);
        command
    };
    let Ok(mut server) = python(SERVER, target).spawn() else {
        skip(concat!(module_path!(), "::http_goes_through_unchanged"), "this machine has no python3");
        return;
    };
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    assert_eq!(within("the server", lines.next_line()).await.unwrap().as_deref(), Some("ready"));
    let (_from, _to, listen) = forwarded(target);
    drop(connect(listen).await);
    let client = python(CLIENT, listen).stderr(Stdio::piped()).spawn().unwrap();
    let output = within("the client", client.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"well\n");
}
