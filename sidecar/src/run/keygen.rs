//! `keygen`: the key of a Peer without a TEE.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sealane_types::PublicKey;
use serde_json::json;

use crate::evidence::KeyFile;
use crate::evidence::key_file;

/// What is printed: the public key, and where it goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: File,
    /// How the public key is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct File {
    /// Make a key and write it there, readable by its owner only; a file that exists is never overwritten
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Make nothing; print the public key of the key in this file
    #[arg(long, value_name = "FILE")]
    show: Option<PathBuf>,
}

/// Makes or reads a key, and prints its public half.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { file: File { out, show }, output } = arguments;
    let (path, key) = match (out, show) {
        (Some(out), _) => {
            let key = key_file::create(&out)?;
            (out, key)
        }
        (None, show) => {
            // Clap demands one of them.
            let show = show.unwrap_or_default();
            let key = KeyFile::kept(show.clone()).read()?;
            (show, key)
        }
    };
    let text = match output {
        Output::Text => text(&path, &key.public_key()),
        Output::Json => {
            format!("{:#}\n", json!({ "publicKey": key.public_key(), "entry": entry(&key.public_key()) }))
        }
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn entry(key: &PublicKey) -> serde_json::Value {
    json!({ "kind": "Key", "publicKeys": [key] })
}

fn text(path: &Path, key: &PublicKey) -> String {
    let (entry, path) = (entry(key), path.display());
    format!(
        "public key  {key}\n\n\
         The entry of its Peer in the policy, which the owners sign:\n  {entry}\n\
         Outside the cluster, in the configuration of the sidecar that is the Peer:\n  \
         provider: Key\n  keyFile: {path}\n\
         In the cluster, for a Peer with attestation {{provider: Key, keySecretRef: {{name: NAME}}}}:\n  \
         kubectl create secret generic NAME --from-file=key.pem={path}\n"
    )
}
