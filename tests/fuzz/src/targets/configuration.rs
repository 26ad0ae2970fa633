//! What a sidecar is started with: the environment that the webhook sets, and the file of one outside a cluster.

use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use sealane_sidecar::config::initdata::Initdata;
use sealane_sidecar::config::{ConfigError, environment, file};
use sealane_types::{INITDATA_BYTES_MAX, INITDATA_ROOTS};

use crate::seeds;

const NAMES: [&str; 16] = [
    "SEALANE_POD_NAMESPACE",
    "SEALANE_POD_NAME",
    "SEALANE_POD_UID",
    "SEALANE_CONTROL_ADDRESS",
    "SEALANE_CONTROL_CA",
    "SEALANE_CONTROL_TOKEN",
    "SEALANE_POD_IPS",
    "SEALANE_ROOTS",
    "SEALANE_DATA_PORT",
    "SEALANE_ADMIN_PORT",
    "SEALANE_ARENA_BYTES",
    "SEALANE_DRAIN_SECONDS",
    "SEALANE_NODE_NAME",
    "SEALANE_SIMULATED_PLATFORM",
    "SEALANE_CONTROL_SERVER_NAME",
    "SEALANE_ADMIN_PORT_PREFERRED",
];

/// One value a line, in the order of [`NAMES`]. Files are not read: they would be whatever the machine has.
pub(super) fn variables(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let values: Vec<&str> = text.split('\n').collect();
    let lookup = |asked: &'static str| {
        let index = NAMES.iter().position(|name| *name == asked)?;
        values.get(index).map(|value| (*value).to_owned())
    };
    match environment::parse(&lookup) {
        Ok(config) => {
            let control = config.control.expect("an injected sidecar has an operator");
            assert!(control.address.starts_with("https://"));
            assert_eq!(config.pod.as_str(), format!("{}/{}/{}", values[0], values[1], values[2]));
            assert!(config.fixed.is_none());
        }
        Err(error) => assert!(error.to_string().contains("SEALANE_"), "{error} names no variable"),
    }
}

/// The YAML; the files that it names hold roots and a chain of the vectors, or nothing.
pub(super) fn yaml(data: &[u8]) {
    let beside = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
        Some("roots.json") => Ok(format!("[{}]", seeds::roots()).into_bytes()),
        Some("policy.json") => Ok(seeds::chain().into_bytes()),
        _ => Err(ConfigError::Unreadable {
            path: path.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        }),
    };
    let Ok(config) = file::parse(data, Path::new("/etc/sealane/sidecar.yaml"), &beside) else { return };
    assert!(config.control.is_none());
    let desired = config.fixed.expect("a file is the whole desired state");
    assert!(desired.sessions.len() <= sealane_sidecar::desired::SESSIONS_MAX);
}

/// The annotation as it comes, and the same bytes packed as Kata has them packed: what is measured is what was packed.
pub(super) fn initdata(data: &[u8]) {
    if let Ok(read) = Initdata::read(data) {
        assert!(read.measured().len() <= INITDATA_BYTES_MAX);
        let roots = read.roots();
        assert!(!matches!(roots, Ok(Some(roots)) if roots.is_empty()));
    }
    if let Ok(read) = Initdata::read(packed(data).as_bytes()) {
        assert_eq!(read.measured(), data);
        drop(read.roots());
    }
}

fn packed(text: &[u8]) -> String {
    let mut packing = GzEncoder::new(Vec::new(), Compression::fast());
    packing.write_all(text).unwrap();
    STANDARD.encode(packing.finish().unwrap())
}

pub(crate) fn initdata_seeds() -> Vec<Vec<u8>> {
    let file = |roots: &str| {
        format!(
            "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n\"policy.rego\" = \"\"\n\"{INITDATA_ROOTS}\" = '''{roots}'''\n"
        )
    };
    let honest = file(&format!("[{}]", seeds::roots()));
    // What unpacks to a thousand times its size, and what nests.
    let long = packed(&vec![b' '; INITDATA_BYTES_MAX + 1]).into_bytes();
    let deep = format!("a = {}", "[".repeat(200)).into_bytes();
    let packed = packed(honest.as_bytes()).into_bytes();
    vec![
        honest.into_bytes(),
        packed,
        file("[]").into_bytes(),
        file("{").into_bytes(),
        long,
        deep,
        b"{}".to_vec(),
    ]
}
