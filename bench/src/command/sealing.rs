//! The signed result that a run leaves behind, and what has to be told for it.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use sealane_results::{Place, RunKey, Site};
use zeroize::Zeroizing;

use crate::programs::KEY;
use crate::report::Report;
use crate::result;

#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub(super) struct Options {
    /// Write the figures here, as a short text signed with the key in SEALANE_BENCH_KEY
    #[arg(long, env = "SEALANE_BENCH_RESULT", value_name = "FILE")]
    result: Option<PathBuf>,
    /// The run that the result belongs to
    #[arg(long, env = "SEALANE_BENCH_RUN", value_name = "ID")]
    run: Option<String>,
    /// The pool of the node
    #[arg(long, env = "SEALANE_BENCH_POOL", value_name = "NAME")]
    pool: Option<String>,
    /// The node
    #[arg(long, env = "SEALANE_BENCH_NODE", value_name = "NAME")]
    node: Option<String>,
    /// The pool of the server's node
    #[arg(long, env = "SEALANE_BENCH_SERVER_POOL", requires = "server_node", value_name = "NAME")]
    server_pool: Option<String>,
    /// The server's node
    #[arg(long, env = "SEALANE_BENCH_SERVER_NODE", requires = "server_pool", value_name = "NAME")]
    server_node: Option<String>,
}

/// Where a result goes, whose it is, and what it is signed with.
#[derive(Debug)]
pub(super) struct Sealing {
    place: Place,
    key: RunKey,
    path: PathBuf,
}

impl Options {
    /// None where nobody asks for a result. The key is read from the environment alone: arguments are shown to everybody
    /// on the machine.
    ///
    /// # Errors
    /// What is missing, by name; a key that is none.
    pub(super) fn sealing(&self) -> Result<Option<Sealing>> {
        let Some(path) = self.result.clone() else { return Ok(None) };
        let given = |value: &Option<String>| value.clone().unwrap_or_default();
        let server = self.server_pool.clone().zip(self.server_node.clone());
        let server = server.map(|(pool, node)| Site { pool, node });
        let place = Place { run: given(&self.run), pool: given(&self.pool), node: given(&self.node), server };
        let key = Zeroizing::new(env::var(KEY).unwrap_or_default());
        let needed: [(_, &str); 4] =
            [("--run", &place.run), ("--pool", &place.pool), ("--node", &place.node), (KEY, &key)];
        let missing = needed.into_iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| name);
        let missing: Vec<_> = missing.collect();
        ensure!(missing.is_empty(), "--result needs {} as well", missing.join(", "));
        let key = key.parse().context(KEY)?;
        Ok(Some(Sealing { place, key, path }))
    }
}

impl Sealing {
    /// Writes what `report` says in short. A termination message is a mounted file: it cannot be replaced, only written.
    /// `fault` is what kept the suites from running, where something did.
    ///
    /// # Errors
    /// What cannot be sealed, or written.
    pub(super) fn leave(self, report: &Report, fault: Option<&anyhow::Error>) -> Result<()> {
        let Self { place, key, path } = self;
        let sealed = key.seal(result::summary(report, place, fault))?;
        fs::write(&path, sealed.as_str()).with_context(|| format!("writing {}", path.display()))
    }
}
