//! The initdata of a guest: a TOML file that its platform measures, as Kata has it.

use std::fmt::Write as _;
use std::io::Write as _;

use aws_lc_rs::digest::{SHA256, SHA384, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sealane_types::{INITDATA_ROOTS, PeerName, Roots};

/// Where Kata's agent looks for its policy.
const POLICY: &str = "policy.rego";
/// What tells Peers apart.
const PEER: &str = "sealane-peer";

/// By what a platform measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Sha256,
    Sha384,
}

/// What is measured with a guest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contents<'a> {
    pub(super) roots: &'a [Roots],
    /// Nobody reads it: it makes the digest of one Peer another than that of the next.
    pub(super) peer: Option<&'a PeerName>,
    /// In Rego.
    pub(super) agent_policy: Option<&'a str>,
    pub(super) algorithm: Algorithm,
}

/// The file.
#[derive(Debug)]
pub(super) struct Initdata {
    text: String,
    algorithm: Algorithm,
}

impl Initdata {
    /// One with these contents, which give the same bytes each time.
    pub(super) fn new(contents: &Contents<'_>) -> Self {
        let Contents { roots, peer, agent_policy, algorithm } = *contents;
        let name = match algorithm {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha384 => "sha384",
        };
        let mut text = format!("version = \"0.1.0\"\nalgorithm = \"{name}\"\n\n[data]\n");
        let roots = serde_json::to_string(roots).unwrap_or_default();
        let policy = agent_policy.map(|policy| (POLICY, policy));
        let peer = peer.map(|peer| (PEER, peer.as_str()));
        let members = policy.into_iter().chain(peer).chain([(INITDATA_ROOTS, roots.as_str())]);
        for (member, value) in members {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\"{member}\" = {}", quoted(value));
        }
        Self { text, algorithm }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What the platform shows, in hex.
    pub(super) fn digest(&self) -> String {
        let algorithm = match self.algorithm {
            Algorithm::Sha256 => &SHA256,
            Algorithm::Sha384 => &SHA384,
        };
        let measured = digest(algorithm, self.text.as_bytes());
        measured.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// As Kata takes it: base64 of gzip.
    pub(super) fn annotation(&self) -> String {
        let mut packing = GzEncoder::new(Vec::new(), Compression::best());
        // Writing into memory cannot fail.
        let packed = packing.write_all(self.text.as_bytes()).and_then(|()| packing.finish());
        STANDARD.encode(packed.unwrap_or_default())
    }
}

/// `text` as a TOML string: as it is where that is possible, so that people can read it.
fn quoted(text: &str) -> String {
    let plain = |symbol: char| matches!(symbol, '\n' | '\t') || !symbol.is_control();
    if !text.contains("'''") && !text.ends_with('\'') && text.chars().all(plain) {
        // TOML drops the newline behind the quotes.
        return format!("'''\n{text}'''");
    }
    let mut escaped = String::from('"');
    for symbol in text.chars() {
        match symbol {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            symbol if symbol.is_control() => {
                let _ = write!(escaped, "\\u{:04X}", u32::from(symbol));
            }
            symbol => escaped.push(symbol),
        }
    }
    escaped.push('"');
    escaped
}

#[cfg(test)]
mod tests {
    use sealane_sidecar::config::initdata::Initdata as Read;

    use super::*;

    fn roots() -> Vec<Roots> {
        let text = r#"[{"namespace":"demo","policy":"demo","threshold":1,"keys":[],"minimumEpoch":1}]"#;
        serde_json::from_str(text).unwrap()
    }

    fn contents(roots: &[Roots]) -> Contents<'_> {
        Contents { roots, peer: None, agent_policy: None, algorithm: Algorithm::Sha256 }
    }

    #[test]
    fn two_peers_of_one_image_are_measured_apart() {
        let roots = roots();
        let of = |peer: &str| {
            let peer = peer.parse().unwrap();
            Initdata::new(&Contents { peer: Some(&peer), ..contents(&roots) }).digest()
        };
        assert_eq!(of("embedder"), of("embedder"));
        assert_ne!(of("embedder"), of("ranker"));
    }

    #[test]
    fn the_sidecar_reads_the_roots_and_the_agent_its_policy() {
        for policy in [
            "package agent_policy\ndefault A := false\n",
            "\n\nfirst lines are empty",
            "a '''quoted''' text with \"quotes\", a \\ and a tab\t",
            "ends with a quote '",
            "lines of Windows\r\nand a bell \u{7}",
            "",
        ] {
            let roots = roots();
            let initdata = Initdata::new(&Contents { agent_policy: Some(policy), ..contents(&roots) });
            let read = Read::read(initdata.annotation().as_bytes()).unwrap();
            assert_eq!(read.measured(), initdata.text().as_bytes());
            assert_eq!(read.roots().unwrap(), Some(roots));
            let file: toml::Table = toml::from_str(initdata.text()).unwrap();
            assert_eq!(file["data"][POLICY].as_str(), Some(policy));
        }
    }

    #[test]
    fn the_digest_is_as_long_as_the_platform_shows_it() {
        let roots = roots();
        let of = |algorithm| Initdata::new(&Contents { algorithm, ..contents(&roots) });
        let snp = of(Algorithm::Sha256);
        assert_eq!(snp.digest(), sealane_policy::digest_of(snp.text().as_bytes()).to_string());
        let tdx = of(Algorithm::Sha384);
        assert_eq!(tdx.digest().len(), 96);
        assert!(tdx.text().contains("algorithm = \"sha384\""));
        assert_eq!(tdx.annotation(), of(Algorithm::Sha384).annotation(), "the same each time");
    }
}
