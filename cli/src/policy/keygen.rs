//! Makes an owner's key.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use sealane_policy::SigningKey;
use serde_json::json;

use crate::output::{self, Format};

/// Only the owner may read a private key.
const KEY_MODE: u32 = 0o600;

/// Makes an Ed25519 key as PKCS#8 PEM, readable by its owner only. Keep it off the cluster: whoever holds a
/// quorum of these keys decides who may talk to whom.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Where the private key goes. An existing file is never overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How the public key is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let shown = arguments.out.display();
    let key = SigningKey::generate()?;
    let pem = key.to_pem()?;
    let created = OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(&arguments.out);
    let mut file = match created {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} exists already; a key is never overwritten, choose another --out")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot create {shown}")),
    };
    let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write {shown}"))?;
    match arguments.output {
        Format::Text => {
            output::print(&format!("public key  {}\nkey id      {}", key.public_key(), key.key_id()))?;
        }
        Format::Json => {
            output::print_json(&json!({"publicKey": key.public_key(), "keyId": key.key_id()}))?;
        }
    }
    output::say(&format!(
        "Wrote the private key to {shown}. Next, once every owner has one:\n  kubectl sealane policy init --owner-key {shown} … > policy.json\nOther people's owners are named by their public keys: --owner-key <64 hex digits>"
    ));
    Ok(())
}
