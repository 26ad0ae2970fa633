//! One entry of the index as data.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Read, Write, stderr},
    path::{Path, PathBuf},
};

use sealane_types::UnixSeconds;
use serde::Deserialize;
use serde_json::Value;

use super::{policy::Policy, trust::Trust, verdict::Unjudged};

/// Bytes of one file that are looked at; every verifier refuses far less.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    SevSnp,
    Tdx,
    Nitro,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::SevSnp => "sev-snp",
            Self::Tdx => "tdx",
            Self::Nitro => "nitro",
        }
    }

    /// The files that an entry of this kind may name.
    const fn files(self) -> &'static [&'static str] {
        match self {
            Self::SevSnp => &["report", "vek", "ark", "ask", "crl"],
            Self::Tdx => &["quote", "collateral", "root"],
            Self::Nitro => &["doc", "root"],
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) now: UnixSeconds,
    pub(super) trust: Trust,
    pub(super) policy: Policy,
    files: BTreeMap<String, PathBuf>,
}

/// The fields that the verdict depends on; others are for readers.
#[derive(Deserialize)]
struct Fields {
    kind: Kind,
    files: BTreeMap<String, PathBuf>,
    now: u64,
    #[serde(default)]
    trust: Option<String>,
    #[serde(default)]
    policy: BTreeMap<String, Value>,
}

impl Entry {
    /// Reads an entry whose paths are relative to `folder`.
    pub(super) fn read(folder: &Path, entry: &Value, test_roots: bool) -> Result<Self, Unjudged> {
        let fields =
            Fields::deserialize(entry).map_err(|error| Unjudged::Malformed(format!("the entry: {error}")))?;
        let Fields { kind, files, now, trust, policy } = fields;
        for name in files.keys().filter(|name| !kind.files().contains(&name.as_str())) {
            // Nothing is left to do when standard error is gone.
            let _ = writeln!(
                stderr(),
                "note: {} evidence has no file `{name}`; it is not looked at",
                kind.as_str()
            );
        }
        let files = files.into_iter().map(|(name, path)| (name, folder.join(path))).collect();
        let trust = Trust::of(trust.as_deref(), test_roots)?;
        Ok(Self { kind, now: UnixSeconds(now), trust, policy: Policy::new(kind.as_str(), policy), files })
    }

    /// The bytes of a file that the entry has to name.
    pub(super) fn file(&self, name: &str) -> Result<Vec<u8>, Unjudged> {
        let missing = || Unjudged::Malformed(format!("the entry names no file `{name}`"));
        self.optional_file(name)?.ok_or_else(missing)
    }

    /// The bytes of a root file; none where the entry trusts what this release pins.
    pub(super) fn root_file(&self, name: &str) -> Result<Option<Vec<u8>>, Unjudged> {
        match self.trust {
            Trust::TestRoot => self.file(name).map(Some),
            Trust::Vendor | Trust::Files => self.optional_file(name),
        }
    }

    /// The bytes of a file, if the entry names it.
    pub(super) fn optional_file(&self, name: &str) -> Result<Option<Vec<u8>>, Unjudged> {
        let Some(path) = self.files.get(name) else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Unjudged::Missing(path.clone())),
            Err(error) => Err(Unjudged::Malformed(format!("{}: {error}", path.display()))),
        }
    }
}
