//! Makes a signed bundle.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use sealane_attestation::bundle::Bundle;
use sealane_attestation::{PckAuthority, PieceId, VerifiedPiece, vcek_ids};
use sealane_collateral::{KDS, PCS, Sources};
use sealane_policy::key_id;
use sealane_types::{Fmspc, Product};

use super::contents::Contents;
use super::gather::{Gathered, read_file};
use crate::policy::{read_key, short};
use crate::source::{shown, write_bytes};
use crate::{clock, output};

/// Verifies every piece under the vendors' roots, puts the newest of each into one bundle, and signs it with the key of
/// one of the policy's owners. Files may hold, in any mixture:
///   - revocation lists of AMD's roots (https://kdsintf.amd.com/vcek/v1/Genoa/crl) or of Intel's root, DER or PEM
///   - certificates of AMD chips (VCEK), DER or PEM, for hosts that hand their guests none
///   - Intel's collateral for TDX in the JSON of its quote verification library
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The private key of one of the policy's owners.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Where the bundle goes; `-` is stdout.
    #[arg(long, value_name = "FILE", default_value = "collateral.json")]
    out: PathBuf,
    /// Take along what an earlier bundle holds and is not over.
    #[arg(long, value_name = "BUNDLE")]
    from: Option<PathBuf>,
    /// Let sidecars take no statement of Intel's with a lower tcbEvaluationDataNumber. By default that of the earlier
    /// bundle.
    #[arg(long, value_name = "NUMBER")]
    min_tcb_evaluation: Option<u32>,
    /// Let --min-tcb-evaluation be lower than that of the earlier bundle.
    #[arg(long, requires_all = ["from", "min_tcb_evaluation"])]
    lower_min_tcb_evaluation: bool,
    #[command(flatten)]
    fetch: FetchArguments,
    /// Files from the vendors.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What the vendors' services are asked for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fetch from the vendors")]
struct FetchArguments {
    /// Fetch the revocation list of an AMD product.
    #[arg(long, value_name = "PRODUCT", value_enum, ignore_case = true)]
    product: Vec<ProductWord>,
    /// Fetch what Intel says of a family of processors (12 hex digits, as a quote's certificate names it).
    #[arg(long, value_name = "FMSPC")]
    fmspc: Vec<Fmspc>,
    /// Fetch the certificate of the chip that made this SEV-SNP report.
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    /// In place of AMD's service.
    #[arg(long, value_name = "URL", default_value = KDS)]
    kds: String,
    /// In place of Intel's service, such as a PCCS.
    #[arg(long, value_name = "URL", default_value = PCS)]
    pcs: String,
    /// PEM of the authorities of these services, in place of the system's.
    #[arg(long, value_name = "FILE")]
    authorities: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProductWord {
    Milan,
    Genoa,
    Turin,
}

impl From<ProductWord> for Product {
    fn from(word: ProductWord) -> Self {
        match word {
            ProductWord::Milan => Self::Milan,
            ProductWord::Genoa => Self::Genoa,
            ProductWord::Turin => Self::Turin,
        }
    }
}

impl FetchArguments {
    fn wanted(&self) -> Result<Vec<PieceId>> {
        let mut wanted: Vec<_> =
            self.product.iter().map(|product| PieceId::SnpList((*product).into())).collect();
        if !self.fmspc.is_empty() {
            wanted.extend([PieceId::TdxRootList, PieceId::QeIdentity]);
            wanted.extend(PckAuthority::ALL.map(PieceId::TdxList));
        }
        wanted.extend(self.fmspc.iter().copied().map(PieceId::TcbInfo));
        for path in &self.report {
            let ids = vcek_ids(&read_file(path)?);
            ensure!(!ids.is_empty(), "{} is no SEV-SNP report that names its chip", shown(path));
            wanted.extend(ids.into_iter().map(PieceId::Vcek));
        }
        Ok(wanted)
    }

    fn sources(&self) -> Result<Sources> {
        let read = |path: &PathBuf| String::from_utf8(read_file(path)?).context("authorities are text");
        let authorities = self.authorities.as_ref().map(read).transpose()?;
        Ok(Sources { kds: self.kds.clone(), pcs: self.pcs.clone(), thim: None, authorities })
    }
}

/// The least tcbEvaluationDataNumber, which does not fall from one bundle to the next unless somebody says so.
fn floor(arguments: &Arguments, earlier: Option<u32>) -> Result<Option<u32>> {
    let Arguments { min_tcb_evaluation: given, lower_min_tcb_evaluation: lower, .. } = arguments;
    match (*given, earlier) {
        (Some(given), Some(earlier)) if given < earlier && !lower => bail!(
            "the earlier bundle has sidecars refuse statements below tcbEvaluationDataNumber {earlier}; to let them take {given} again: --lower-min-tcb-evaluation"
        ),
        (None, Some(earlier)) => {
            output::say(&format!("note: --min-tcb-evaluation {earlier} is kept from the earlier bundle"));
            Ok(Some(earlier))
        }
        (given, _) => Ok(given),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { key, out, from, fetch, files, .. } = arguments;
    let now = clock::now();
    let mut gathered = Gathered::new(now);
    let earlier = match from {
        Some(earlier) => gathered.earlier(earlier)?,
        None => None,
    };
    let floor = floor(arguments, earlier)?;
    gathered.files(files)?;
    gathered.fetch(fetch.wanted()?, &fetch.sources()?)?;
    let pieces = gathered.stock.pieces();
    ensure!(
        !pieces.is_empty(),
        "there is nothing to put into the bundle; name files from the vendors, or what to fetch (see --help)"
    );
    let low = |piece: &&VerifiedPiece| piece.evaluation().is_some_and(|found| Some(found) < floor);
    if let Some(piece) = pieces.iter().find(low) {
        bail!(
            "{} has tcbEvaluationDataNumber {}: below {}, every sidecar would refuse it",
            piece.id(),
            piece.evaluation().unwrap_or_default(),
            floor.unwrap_or_default()
        );
    }
    let key = read_key(key)?;
    let bundle = Bundle {
        issued: now.unix(),
        min_tcb_evaluation: floor,
        pieces: pieces.iter().map(|piece| piece.piece().clone()).collect(),
    };
    let signer = key_id(&key.public_key());
    write_bytes(out, &bundle.sign(&key)?)?;
    output::say(&Contents::of(&bundle, &[signer], now).describe());
    output::say(&format!(
        "Signed as {}. Next:\n  kubectl sealane collateral import {}",
        short(&signer),
        shown(out)
    ));
    Ok(())
}
