//! A folder in which a test runs the plugin.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A temporary folder, in which the plugin finds no cluster and nothing of whoever runs the tests.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Where `name` is in the folder, if it is there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the file `name`, over what it held.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// What the plugin answers to `arguments`.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_kubectl-sealane"))
            .args(arguments)
            .current_dir(self.0.path())
            .env("KUBECONFIG", "/nonexistent")
            .env("HOME", self.0.path())
            .env_remove("SEALANE_AUDITOR_KEY")
            .output()
            .unwrap()
    }

    /// Stdout of a command that succeeds.
    #[track_caller]
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stderr of a command that fails with `code`.
    #[track_caller]
    pub(crate) fn bad(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        errors
    }
}
