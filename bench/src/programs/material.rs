//! What peers with TLS prove themselves by.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::route::Route;

/// A certificate and its key, which both ends of every rival have: `cert.pem`, `key.pem` and both in `both.pem`.
#[derive(Debug)]
pub(crate) struct Material(TempDir);

impl Material {
    pub(crate) fn new(route: &Route) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealane-bench-material-").tempdir()?;
        let addresses = route.hosts.iter().map(|host| host.address.to_string());
        let names: Vec<_> =
            ["peer".to_owned(), "127.0.0.1".to_owned()].into_iter().chain(addresses).collect();
        let key = rcgen::KeyPair::generate()?;
        let mut parameters = rcgen::CertificateParams::new(names)?;
        // Who trusts it takes it for an authority, too.
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key)?.pem();
        let key = key.serialize_pem();
        let write = |name: &str, text: &str| write(folder.path(), name, text);
        write("cert.pem", &certificate)?;
        write("key.pem", &key)?;
        write("both.pem", &(certificate + &key))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(folder.join(name), text).with_context(|| format!("writing {name}"))
}
