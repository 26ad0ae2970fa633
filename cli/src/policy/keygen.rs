//! Makes the key of an owner or of an auditor.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sealane_policy::SigningKey;
use serde_json::json;

use crate::auditor;
use crate::output::{self, Format};

/// Only the owner of the file may read a private key.
const KEY_MODE: u32 = 0o600;

/// Makes a key as PKCS#8 PEM, readable by its owner only. Keep it off the cluster.
///
/// By default it is an Ed25519 key that signs policies: whoever holds a quorum of these decides who may talk to whom.
/// With --auditor it is an X25519 key that asks sidecars for their evidence (`kubectl sealane verify`), once a signed
/// policy lists its public half.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Where the private key goes. An existing file is never overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Make an auditor's key instead of an owner's.
    #[arg(long)]
    auditor: bool,
    /// How the public key is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.auditor { auditors(arguments) } else { owners(arguments) }
}

fn owners(arguments: &Arguments) -> Result<()> {
    let shown = arguments.out.display();
    let key = SigningKey::generate()?;
    write(&arguments.out, &key.to_pem()?)?;
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

fn auditors(arguments: &Arguments) -> Result<()> {
    let shown = arguments.out.display();
    let (pem, public) = auditor::generate()?;
    write(&arguments.out, &pem)?;
    let member = json!({"publicKeys": [public]});
    match arguments.output {
        Format::Text => {
            output::print(&format!("public key  {public}\nin policy   \"auditors\": {member}"))?;
        }
        Format::Json => output::print_json(&json!({"publicKey": public, "auditors": member}))?,
    }
    output::say(&format!(
        "Wrote the private key to {shown}. Next, the owners sign an epoch that lists it:\n  kubectl sealane policy init --auditor {public} … > policy.json\nand then\n  kubectl sealane verify PEER --key {shown}"
    ));
    Ok(())
}

/// Writes a private key where no file is.
fn write(path: &Path, pem: &str) -> Result<()> {
    let shown = path.display();
    let created = OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(path);
    let mut file = match created {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} exists already; a key is never overwritten, choose another --out")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot create {shown}")),
    };
    let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write {shown}"))
}
