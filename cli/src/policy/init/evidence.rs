//! Flags of `policy init` that take entries from evidence.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use sealane_policy::Timestamp;
use sealane_types::{Assurance, PeerName};

use super::super::learn::{Allow, Files, Learned, Material, Wishes, learn};
use crate::clock;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From evidence that is known to be good")]
pub(super) struct EvidenceFlags {
    /// Verify this evidence and pin what it says, for every Peer or for one: FILE or PEER=FILE. Repeat it. The file is
    /// evidence as a sidecar sends it, an SEV-SNP report (with --vek), a TDX quote (with --collateral) or a Nitro
    /// document, as it is or in base64.
    #[arg(long, value_name = "[PEER=]FILE", conflicts_with_all = ["measurement", "min_tcb", "product"])]
    from_evidence: Vec<EvidenceFlag>,
    /// Certificate of the key that signed an SEV-SNP report: its VCEK or VLEK, in DER or PEM.
    #[arg(long, value_name = "FILE", requires = "from_evidence")]
    vek: Option<PathBuf>,
    /// Intel's statements on the platform of a TDX quote (JSON), or AMD's revocation list (DER).
    #[arg(long, value_name = "FILE", requires = "from_evidence")]
    collateral: Option<PathBuf>,
    /// Judge the evidence as of this time; by default now.
    #[arg(long, value_name = "TIME", requires = "from_evidence")]
    at: Option<Timestamp>,
    /// Pin the one processor that the evidence is from; for Nitro, the parent instance.
    #[arg(long, requires = "from_evidence")]
    pin_chip: bool,
    /// Permit a weakness that the evidence has; without it, such evidence is refused. Repeat it.
    #[arg(long, value_name = "WORD", value_enum, requires = "from_evidence")]
    allow: Vec<Allow>,
}

/// `FILE`, or `PEER=FILE`.
#[derive(Debug, Clone)]
pub(super) struct EvidenceFlag {
    peer: Option<PeerName>,
    file: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("expected FILE or PEER=FILE")]
pub(super) struct InvalidEvidence;

impl FromStr for EvidenceFlag {
    type Err = InvalidEvidence;
    fn from_str(text: &str) -> Result<Self, InvalidEvidence> {
        let (peer, file) = match text.split_once('=') {
            // A path may have an equals sign; the name of a Peer has no slash.
            Some((peer, file)) if !peer.contains('/') => {
                (Some(peer.parse().map_err(|_| InvalidEvidence)?), file)
            }
            _ => (None, text),
        };
        if file.is_empty() { Err(InvalidEvidence) } else { Ok(Self { peer, file: file.into() }) }
    }
}

/// Entries from evidence: those of named Peers, and the one of all others that have no pinned key.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) named: BTreeMap<PeerName, Learned>,
    pub(super) others: Option<Learned>,
}

impl EvidenceFlags {
    pub(super) fn is_given(&self) -> bool {
        !self.from_evidence.is_empty()
    }

    /// Verifies every file, and says in words what each pins.
    pub(super) fn learn(&self, assurance: Assurance, simulated: bool) -> Result<Shown> {
        let allowed = self.allow.iter().copied().collect();
        let wishes = Wishes { assurance, pin_chip: self.pin_chip, allowed };
        let files = Files { vek: self.vek.as_ref(), collateral: self.collateral.as_ref(), simulated };
        let at = self.at.unwrap_or_else(clock::now).unix();
        let mut shown = Shown::default();
        for EvidenceFlag { peer, file } in &self.from_evidence {
            let learned = Material::read(file, files).and_then(|material| learn(&material, &wishes, at));
            let learned = learned.with_context(|| file.display().to_string())?;
            output::say(&format!("{}: {}", file.display(), learned.words.trim_end()));
            let first = match peer {
                Some(peer) => shown.named.insert(peer.clone(), learned).is_none(),
                None => shown.others.replace(learned).is_none(),
            };
            ensure!(
                first,
                "--from-evidence is given twice for {}",
                peer.as_ref().map_or("every Peer", PeerName::as_str)
            );
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_name_its_peer() {
        let flag: EvidenceFlag = "embedder=/tmp/a=b".parse().unwrap();
        assert_eq!((flag.peer.unwrap().as_str(), flag.file), ("embedder", PathBuf::from("/tmp/a=b")));
        for alone in ["report.bin", "./a=b", "/tmp/a=b"] {
            let flag: EvidenceFlag = alone.parse().unwrap();
            assert_eq!((flag.peer, flag.file), (None, PathBuf::from(alone)));
        }
        for other in ["", "embedder=", "Embedder=x", "=x"] {
            assert!(other.parse::<EvidenceFlag>().is_err(), "{other}");
        }
    }
}
