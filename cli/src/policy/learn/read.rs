//! Evidence from files: as it travels, or as a platform gave it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{Anchor, Collateral, Evidence, Format, TdxCollateral, limits};

/// Evidence in base64 with line ends, or collateral.
const FILE_BYTES_MAX: usize = 512 * 1024;
/// Bytes of an SEV-SNP ATTESTATION_REPORT.
const SNP_REPORT_BYTES: usize = 1184;
/// Where a TDX quote names its TEE ("Intel TDX DCAP Quoting Library API", appendix A.3.1), and what it says.
const TDX_TEE: (std::ops::Range<usize>, [u8; 4]) = (4..8, [0x81, 0, 0, 0]);
/// First byte of a COSE_Sign1 without a tag: an array of four (RFC 9052 §4.2).
const COSE_SIGN1: u8 = 0x84;
const PEM_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const PEM_END: &str = "-----END CERTIFICATE-----";

/// What goes with the evidence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    /// The certificate of the key that signed a bare SEV-SNP report.
    pub(crate) vek: Option<&'a PathBuf>,
    /// Intel's statements for TDX, or AMD's revocation list.
    pub(crate) collateral: Option<&'a PathBuf>,
    pub(crate) simulated: bool,
}

/// Evidence, and what to verify it with.
#[derive(Debug, Clone)]
pub(crate) struct Material {
    pub(super) evidence: Evidence,
    pub(super) collateral: Collateral,
}

impl Material {
    pub(crate) fn read(path: &Path, files: Files<'_>) -> Result<Self> {
        let evidence = evidence(&bytes(path)?, files)?;
        let collateral = collateral(&evidence, files)?;
        Ok(Self { evidence, collateral })
    }
}

fn evidence(bytes: &[u8], files: Files<'_>) -> Result<Evidence> {
    if let Some(evidence) = bare(bytes, files)? {
        return Ok(evidence);
    }
    let text: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let decoded = STANDARD.decode(text).ok();
    if let Some(evidence) = decoded.map(|bytes| bare(&bytes, files)).transpose()?.flatten() {
        return Ok(evidence);
    }
    bail!(
        "is no evidence: expected what a sidecar sends, an SEV-SNP report of {SNP_REPORT_BYTES} bytes, a TDX quote or a Nitro document, each as it is or in base64"
    )
}

/// Evidence in no further encoding.
fn bare(bytes: &[u8], files: Files<'_>) -> Result<Option<Evidence>> {
    if let Ok(evidence) = Evidence::decode(bytes) {
        return Ok(Some(evidence));
    }
    let (format, certificates) = if bytes.len() == SNP_REPORT_BYTES {
        let vek =
            files.vek.context("an SEV-SNP report alone names no key; --vek FILE is its VCEK or VLEK")?;
        (Format::SevSnp, vec![certificate(vek)?])
    } else if bytes.get(TDX_TEE.0) == Some(&TDX_TEE.1) {
        (Format::Tdx, Vec::new())
    } else if bytes.first() == Some(&COSE_SIGN1) {
        (Format::Nitro, Vec::new())
    } else {
        return Ok(None);
    };
    Ok(Some(Evidence { format, report: bytes.to_vec(), certificates }))
}

/// DER of a certificate that is in DER or PEM.
fn certificate(path: &Path) -> Result<Vec<u8>> {
    let bytes = bytes(path)?;
    let Some(text) = std::str::from_utf8(&bytes).ok().filter(|text| text.contains(PEM_BEGIN)) else {
        return Ok(bytes);
    };
    let body = text.split_once(PEM_BEGIN).and_then(|(_, rest)| rest.split_once(PEM_END));
    let body: String = body.map(|(body, _)| body.split_whitespace().collect()).unwrap_or_default();
    STANDARD.decode(body).with_context(|| format!("{} is no certificate in PEM", path.display()))
}

fn collateral(evidence: &Evidence, files: Files<'_>) -> Result<Collateral> {
    let builtin = Collateral::builtin();
    let builtin = if files.simulated { builtin.allowing_simulated() } else { builtin };
    match (evidence.format, files.collateral) {
        (Format::Tdx, None) => {
            bail!(
                "a TDX quote is judged by Intel's statements on its platform; --collateral FILE names them (JSON)"
            )
        }
        (Format::Tdx, Some(path)) => {
            let statements = TdxCollateral::from_json(&bytes(path)?);
            Ok(builtin.with_tdx(statements.with_context(|| path.display().to_string())?))
        }
        (Format::SevSnp, Some(path)) => with_list(builtin, &bytes(path)?),
        (_, Some(path)) => bail!("{} is not needed: this evidence takes no collateral", path.display()),
        (_, None) => Ok(builtin),
    }
}

/// The list speaks for one root; beside another the verifier refuses it, so each may have it.
fn with_list(builtin: Collateral, list: &[u8]) -> Result<Collateral> {
    let anchors: Vec<Anchor> = builtin.anchors().to_vec();
    anchors.into_iter().try_fold(builtin, |collateral, anchor| {
        Ok(collateral.with_anchor(anchor.with_revocation_list(list)?))
    })
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    const _: () = assert!(2 * limits::EVIDENCE_BYTES_MAX < FILE_BYTES_MAX);
    let cannot = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(bytes.len() <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", path.display());
    Ok(bytes)
}
