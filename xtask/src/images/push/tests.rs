//! Against a registry that keeps what it gets and accepts nothing out of order.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use aws_lc_rs::digest;

use super::*;
use crate::oci;

#[derive(Default)]
struct Store {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, Vec<u8>>,
    uploads: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Login {
    None,
    Basic,
    Bearer,
}

/// Serves one connection per request until the test ends; the thread dies with the process.
fn serve(login: Login) -> (String, Arc<Mutex<Store>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let store = Arc::new(Mutex::new(Store::default()));
    let (shared, own) = (Arc::clone(&store), host.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &own, login, &mut shared.lock().unwrap());
        }
    });
    (host, store)
}

fn answer(stream: TcpStream, host: &str, login: Login, store: &mut Store) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let header = |name: &str| {
        let found = lines
            .iter()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |value| value.parse().unwrap());
    assert_eq!(header("transfer-encoding"), None, "registries behind object stores refuse chunks");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = lines[0].split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (status, more) = respond(method, path, &body, header("authorization"), host, login, store);
    let (head, content) = more.split_once("\r\n\r\n").unwrap_or((more.as_str(), ""));
    let head = if head.is_empty() { String::new() } else { format!("{head}\r\n") };
    let length = if method == "HEAD" { 0 } else { content.len() };
    let text = format!(
        "HTTP/1.1 {status} x\r\n{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{content}"
    );
    reader.into_inner().write_all(text.as_bytes()).unwrap();
}

fn respond(
    method: &str,
    path: &str,
    body: &[u8],
    authorization: Option<String>,
    host: &str,
    login: Login,
    store: &mut Store,
) -> (u16, String) {
    let basic = "Basic dXNlcjpwYXNzd29yZA==";
    if let Some(asked) = path.strip_prefix("/token?") {
        assert_eq!(asked, "scope=repository:team/app:pull,push&service=a%20registry");
        return if authorization.as_deref() == Some(basic) {
            (200, "\r\n\r\n{\"access_token\": \"good\"}".to_owned())
        } else {
            (401, String::new())
        };
    }
    let (expected, challenge) = match login {
        Login::None => (None, String::new()),
        Login::Basic => (Some(basic), "WWW-Authenticate: Basic realm=\"x\"".to_owned()),
        Login::Bearer => {
            let realm = format!("http://{host}/token");
            (
                Some("Bearer good"),
                format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"a registry\""),
            )
        }
    };
    if authorization.as_deref() != expected {
        return (401, challenge);
    }
    let digest_of = |path: &str| path.split("digest=").nth(1).unwrap_or_default().to_owned();
    match (method, path.strip_prefix("/v2/").unwrap()) {
        ("GET", "") => (200, String::new()),
        ("HEAD", path) if path.starts_with("team/app/blobs/") => (
            if store.blobs.contains_key(&path["team/app/blobs/".len()..]) { 200 } else { 404 },
            String::new(),
        ),
        ("POST", "team/app/blobs/uploads/") => {
            (202, "Location: /v2/team/app/blobs/uploads/7?state=a".to_owned())
        }
        ("PUT", path) if path.starts_with("team/app/blobs/uploads/7?state=a&digest=") => {
            let hash = hex::encode(digest::digest(&digest::SHA256, body));
            if format!("sha256:{hash}") != digest_of(path) {
                return (400, "\r\n\r\nDIGEST_INVALID".to_owned());
            }
            store.uploads += 1;
            store.blobs.insert(digest_of(path), body.to_vec());
            (201, String::new())
        }
        ("PUT", path) if path.starts_with("team/app/manifests/") => {
            store.manifests.insert(path["team/app/manifests/".len()..].to_owned(), body.to_vec());
            (201, String::new())
        }
        _ => (404, "\r\n\r\nNAME_UNKNOWN".to_owned()),
    }
}

fn image(folder: &std::path::Path) -> Image {
    let layers =
        [oci::Layer::new().file("a", 0o644, vec![7; 300_000]), oci::Layer::new().file("b", 0o644, "b")];
    let [first, second] = layers;
    let built = oci::Image::new("localhost/app").layer(first).layer(second).write_by_content(folder).unwrap();
    Image { name: "localhost/app".into(), tag: built.tag, archive: built.archive, digest: built.digest }
}

fn registry(host: &str, login: bool) -> Registry {
    let credentials = login.then(|| Credentials::new("user", "password"));
    Registry { credentials, ..Registry::parse(&format!("{host}/team")).unwrap() }
}

#[test]
fn everything_arrives_once_with_any_login() {
    for login in [Login::None, Login::Basic, Login::Bearer] {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        let (host, store) = serve(login);
        let pushed = registry(&host, true).push(&image).unwrap();
        assert_eq!(pushed.reference(), format!("{host}/team/app:{}", image.tag));
        registry(&host, true).push(&image).unwrap();

        let store = store.lock().unwrap();
        assert_eq!(store.uploads, 3, "two layers and a configuration, and none twice");
        let hash = hex::encode(digest::digest(&digest::SHA256, &store.manifests[&image.tag]));
        assert_eq!(image.digest.as_str(), format!("sha256:{hash}"));
    }
}

#[test]
fn a_missing_login_says_what_to_set() {
    for login in [Login::Basic, Login::Bearer] {
        let folder = tempfile::tempdir().unwrap();
        let (host, store) = serve(login);
        let error = registry(&host, false).push(&image(folder.path())).unwrap_err();
        assert!(format!("{error:#}").contains("SEALANE_REGISTRY_USER"), "{error:#}");
        assert_eq!(store.lock().unwrap().uploads, 0);
    }
}

#[test]
fn a_refusal_carries_the_registrys_words() {
    let folder = tempfile::tempdir().unwrap();
    let (host, _store) = serve(Login::None);
    let registry = Registry { path: "elsewhere".into(), ..registry(&host, false) };
    let error = registry.push(&image(folder.path())).unwrap_err();
    assert!(format!("{error:#}").contains("NAME_UNKNOWN"), "{error:#}");
}

#[test]
fn only_this_machine_is_spoken_to_without_encryption() {
    assert_eq!(Registry::parse("localhost:5000").unwrap().base, "http://localhost:5000");
    assert_eq!(Registry::parse("[::1]:5000/a").unwrap().base, "http://[::1]:5000");
    for foreign in ["registry.test/team/", "localhost.test:5000", "10.0.0.1:5000"] {
        assert!(Registry::parse(foreign).unwrap().base.starts_with("https://"), "{foreign}");
    }
    for wrong in ["", "https://registry.test", "registry.test/a b", "user@registry.test", "registry.test//a"]
    {
        assert!(Registry::parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn an_upload_goes_where_the_registry_says_but_never_in_the_clear() {
    let url = |location| upload_url("https://registry.test", location, "sha256:1");
    assert_eq!(url("/u/7").unwrap(), "https://registry.test/u/7?digest=sha256:1");
    assert_eq!(url("https://store.test/u?s=1").unwrap(), "https://store.test/u?s=1&digest=sha256:1");
    assert!(url("http://store.test/u").is_err());
}
