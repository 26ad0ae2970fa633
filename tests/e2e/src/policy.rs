//! Policies as users make them: with `kubectl sealane policy`, by owners whose keys live for one test.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::Sandbox;

/// Two owners; both must sign.
#[derive(Debug)]
pub struct Owners {
    folder: TempDir,
}

/// Who signs a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signing {
    /// Both owners: the quorum.
    Quorum,
    /// One owner, twice.
    OneTwice,
    Nobody,
}

const NAMES: [&str; 2] = ["alice", "bob"];

impl Owners {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { folder: TempDir::new().context("a folder for owners' keys")? })
    }

    fn key(&self, owner: &str) -> PathBuf {
        self.folder.path().join(format!("{owner}.pem"))
    }
}

impl Sandbox {
    /// Drafts a policy named `trust` from what is declared in the namespace, lets `edit` change the draft, has it
    /// signed and gives the TrustPolicy manifest.
    ///
    /// # Errors
    /// The plugin's words.
    pub async fn policy(&self, signing: Signing, edit: impl FnOnce(&mut Value)) -> Result<Value> {
        self.policy_with(&[], signing, edit).await
    }

    /// As [`Self::policy`], with further flags of `policy init`.
    ///
    /// # Errors
    /// The plugin's words.
    pub async fn policy_with(
        &self,
        flags: &[&str],
        signing: Signing,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Value> {
        let plugin = &self.cluster;
        let keys: Vec<String> =
            NAMES.iter().map(|name| self.owners.key(name).to_string_lossy().into_owned()).collect();
        for key in keys.iter().filter(|key| !std::path::Path::new(key).exists()) {
            plugin.plugin(&["policy", "keygen", "--out", key]).await?;
        }
        let mut init = vec!["policy", "init", "--namespace", &self.name, "--name", "trust"];
        init.extend(["--simulated", "--threshold", "2"]);
        init.extend(flags);
        for key in &keys {
            init.extend(["--owner-key", key]);
        }
        let drafted = plugin.plugin(&init).await?;
        let mut draft: Value = serde_json::from_str(&drafted).context("policy init")?;
        edit(&mut draft);
        let file = self.owners.folder.path().join("draft.json");
        std::fs::write(&file, draft.to_string()).context("writing the draft")?;
        let file = file.to_string_lossy().into_owned();
        let signers: &[usize] = match signing {
            Signing::Quorum => &[0, 1],
            Signing::OneTwice => &[0, 0],
            Signing::Nobody => &[],
        };
        for signer in signers {
            plugin.plugin(&["policy", "sign", "--key", &keys[*signer], &file]).await?;
        }
        let manifest = plugin
            .plugin(&[
                "policy",
                "manifest",
                "--name",
                "trust",
                "--namespace",
                &self.name,
                "-o",
                "json",
                &file,
            ])
            .await?;
        serde_json::from_str(&manifest).context("policy manifest")
    }
}
