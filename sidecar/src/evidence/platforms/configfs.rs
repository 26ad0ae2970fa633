//! configfs-tsm: the kernel's interface to quotes of SEV-SNP and TDX guests
//! (Documentation/ABI/testing/configfs-tsm-report, since 6.7).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, FutureExt};
use sealane_attestation::Format;
use sealane_attestation::limits::REPORT_BYTES_MAX;
use tokio::sync::OnceCell;

use super::device::Device;
use super::{certificates, report};
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

const REPORTS: &str = "/sys/kernel/config/tsm/report";
const WORD_BYTES_MAX: usize = 64;
/// Most that a host's certificate table may have.
const TABLE_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct ConfigfsTsm {
    reports: Arc<Path>,
    device: Device,
    format: OnceCell<Format>,
}

impl Default for ConfigfsTsm {
    fn default() -> Self {
        Self { reports: Path::new(REPORTS).into(), device: Device::default(), format: OnceCell::new() }
    }
}

impl ConfigfsTsm {
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Path) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let reports = Arc::clone(&self.reports);
        self.device.ask(move || question(&reports)).await
    }

    async fn known(&self) -> Result<Format, ProviderError> {
        let asked = || self.ask(|reports| Entry::create(reports)?.format());
        self.format.get_or_try_init(asked).await.copied()
    }
}

impl Provider for ConfigfsTsm {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        self.known().boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async move {
            let format = self.known().await?;
            self.ask(move |reports| quote(reports, format, &request.report_data)).await
        }
        .boxed()
    }
}

fn quote(reports: &Path, format: Format, report_data: &[u8; 64]) -> Result<Quote, ProviderError> {
    let entry = Entry::create(reports)?;
    if entry.format()? != format {
        return Err(ProviderError::Malformed("configfs-tsm changed its provider"));
    }
    let before = entry.generation()?;
    entry.write("inblob", report_data)?;
    let report = entry.read("outblob", REPORT_BYTES_MAX)?;
    // Only SEV-SNP has a table, only if the host gave one, and older kernels have no such file.
    let table = entry.read("auxblob", TABLE_BYTES_MAX).unwrap_or_default();
    // The kernel counts every write: one more than ours means that somebody else asked through this entry.
    if before.checked_add(1) != Some(entry.generation()?) {
        return Err(ProviderError::Malformed("somebody else wrote to our entry of configfs-tsm"));
    }
    report::carries(format, &report, report_data)?;
    Ok(Quote { report, certificates: certificates::read(&table), workload: None })
}

/// A directory of our own, removed when it goes out of scope.
struct Entry(PathBuf);

impl Entry {
    fn create(reports: &Path) -> Result<Self, ProviderError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("sealane-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = reports.join(name);
        fs::create_dir(&path).map_err(failed)?;
        Ok(Self(path))
    }

    fn format(&self) -> Result<Format, ProviderError> {
        match self.word("provider")?.as_str() {
            "sev_guest" => Ok(Format::SevSnp),
            "tdx_guest" => Ok(Format::Tdx),
            _ => Err(ProviderError::Malformed("configfs-tsm has a provider that Sealane does not know")),
        }
    }

    fn generation(&self) -> Result<u64, ProviderError> {
        self.word("generation")?
            .parse()
            .map_err(|_| ProviderError::Malformed("configfs-tsm states no generation"))
    }

    fn word(&self, name: &str) -> Result<String, ProviderError> {
        let bytes = self.read(name, WORD_BYTES_MAX)?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| ProviderError::Malformed("configfs-tsm wrote no text"))?;
        Ok(text.trim_end().to_owned())
    }

    fn read(&self, name: &str, most: usize) -> Result<Vec<u8>, ProviderError> {
        let mut bytes = Vec::new();
        let file = File::open(self.0.join(name)).map_err(failed)?;
        file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > most {
            return Err(ProviderError::Malformed("configfs-tsm wrote more than any platform does"));
        }
        Ok(bytes)
    }

    /// In one write, as the kernel demands.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ProviderError> {
        let mut file = File::options().write(true).open(self.0.join(name)).map_err(failed)?;
        if file.write(bytes).map_err(failed)? == bytes.len() {
            Ok(())
        } else {
            Err(ProviderError::Malformed("configfs-tsm took a part of the report data"))
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            tracing::warn!(%error, "an entry of configfs-tsm could not be removed");
        }
    }
}

fn failed(source: io::Error) -> ProviderError {
    ProviderError::Device { what: "configfs-tsm (/sys/kernel/config/tsm/report)", source }
}
