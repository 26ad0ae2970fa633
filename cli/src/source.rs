//! Files that hold a policy: a draft, a bundle with signatures, or a TrustPolicy manifest.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_operator_api::TrustPolicy;
use sealane_policy::limits::CHAIN_BYTES_MAX;
use sealane_policy::{Document, canonical, parse, read};
use sealane_types::{Roots, SignedChain};
use serde_json::Value;

/// Base64 and indentation make a chain larger; nothing legitimate exceeds this.
const FILE_BYTES_MAX: u64 = 2 * CHAIN_BYTES_MAX as u64;

/// A policy from a file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The exact bytes that are or will be signed.
    pub(crate) bytes: Vec<u8>,
    /// The bytes in base64, the signatures so far and the rotations; none of the latter for a draft.
    pub(crate) chain: SignedChain,
    /// Roots, where the file is a TrustPolicy.
    pub(crate) roots: Option<Roots>,
}

impl Source {
    /// Reads `path`, or stdin when it is `-`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        Self::from_text(&text).with_context(|| shown(path))
    }

    fn from_text(text: &str) -> Result<Self> {
        // JSON is YAML too; drafts must be JSON, since the signed form is. What neither reads is explained best
        // by the reader of documents.
        let Ok(value) = serde_norway::from_str::<Value>(text) else {
            return Ok(Self::draft(canonical(text.as_bytes())?));
        };
        if value.get("kind").is_some_and(|kind| kind == "TrustPolicy") {
            let manifest = serde_json::from_value(value).context("is not a complete TrustPolicy")?;
            return Self::from_manifest(&manifest);
        }
        if value.get("document").is_some_and(Value::is_string) {
            let chain: SignedChain = serde_json::from_value(value).context(
                "is not a bundle: expected {document, signatures, rotations} as `kubectl sealane policy sign` writes it",
            )?;
            return Self::from_chain(chain, None);
        }
        Ok(Self::draft(canonical(text.as_bytes())?))
    }

    /// An unsigned document.
    pub(crate) fn draft(bytes: Vec<u8>) -> Self {
        let chain = SignedChain { document: STANDARD.encode(&bytes), signatures: vec![], rotations: vec![] };
        Self { bytes, chain, roots: None }
    }

    pub(crate) fn from_manifest(manifest: &TrustPolicy) -> Result<Self> {
        let name = manifest.metadata.name.as_deref().context("the TrustPolicy has no metadata.name")?;
        let namespace = manifest.metadata.namespace.as_deref();
        let namespace = namespace.context("the TrustPolicy has no metadata.namespace")?;
        let roots = manifest.spec.roots(namespace, name)?;
        Self::from_chain(manifest.spec.chain()?, Some(roots))
    }

    fn from_chain(chain: SignedChain, roots: Option<Roots>) -> Result<Self> {
        let bytes = STANDARD.decode(&chain.document).context("`document` is not standard base64")?;
        Ok(Self { bytes, chain, roots })
    }

    /// The document, linted: what may be signed.
    pub(crate) fn document(&self) -> Result<Document> {
        Ok(parse(&self.bytes)?)
    }

    /// The document as it is: a draft may have gaps, and an earlier release may have had other rules.
    pub(crate) fn as_it_is(&self) -> Result<Document> {
        Ok(read(&self.bytes)?)
    }

    pub(crate) fn is_signed(&self) -> bool {
        !self.chain.signatures.is_empty()
    }
}

pub(crate) fn shown(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The text of a file or of stdin, refused when it is too large to be a policy.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let bytes = read_bytes(path, FILE_BYTES_MAX, "it is no policy")?;
    String::from_utf8(bytes).with_context(|| format!("cannot read {}", shown(path)))
}

/// The bytes of a file or of stdin; what has more than `most` is refused, since `otherwise`.
pub(crate) fn read_bytes(path: &Path, most: u64, otherwise: &str) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", shown(path));
    let mut bytes = Vec::new();
    let reader: &mut dyn Read =
        if is_stdin(path) { &mut io::stdin().lock() } else { &mut File::open(path).with_context(cannot)? };
    let read = reader.take(most + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if read as u64 > most {
        bail!("{} has more than {most} bytes: {otherwise}", shown(path));
    }
    Ok(bytes)
}

/// Replaces a file as a whole, so that an interrupted run leaves the old one; `-` is stdout.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if is_stdin(path) {
        let mut stdout = io::stdout().lock();
        return stdout.write_all(bytes).and_then(|()| stdout.flush()).context("cannot write to stdout");
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".sealane-")
        .tempfile_in(directory.unwrap_or(Path::new(".")))
        .with_context(cannot)?;
    file.write_all(bytes).with_context(cannot)?;
    file.persist(path).map(drop).with_context(cannot)
}
