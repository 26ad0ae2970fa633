//! The layers that come from Debian packages: downloaded by apt, which verifies them against the archive's signed
//! index, and unpacked without being installed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    closure::Dependencies,
    recipe::Recipe,
    timer::Timer,
    tree::{self, Key},
    unpack,
};
use crate::{cluster, process, progress::note};

/// A Debian package, as apt would download it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    file: String,
    sha256: String,
}

/// How many of the layers an image needs; each stands on those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    Os,
    Python,
    Torch,
}

/// The packages of each layer, which lacks what those before have. That of torch is empty unless asked for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) os: Vec<Package>,
    pub(super) python: Vec<Package>,
    pub(super) torch: Vec<Package>,
}

/// apt, with its caches in our own folder so that nothing on the machine changes.
#[derive(Debug)]
pub(super) struct Apt {
    folder: PathBuf,
}

impl Apt {
    pub(super) fn new(cache: &Path) -> Result<Self> {
        let folder = cache.join("debian");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Finds all packages and downloads those that are not here yet. A first failure may only mean that the
    /// machine's package lists are missing or older than the archive: they are refreshed, once.
    pub(super) fn take(&self, recipe: &Recipe, extent: Extent) -> Result<Plan> {
        let attempt = || {
            let plan = self.plan(recipe, extent)?;
            self.fetch(&plan.os)?;
            if extent >= Extent::Python {
                self.fetch(&plan.python)?;
            }
            self.fetch(&plan.torch)?;
            Ok(plan)
        };
        attempt().or_else(|stale: anyhow::Error| {
            note(&format!("images: refreshing apt's package lists: {}", first_line(&stale)));
            self.refresh()
                .with_context(|| format!("apt cannot offer what xtask/images/debian.txt names: {stale:#}"))?;
            attempt()
                .context("apt has not all packages of xtask/images/debian.txt: images are built on Debian 12")
        })
    }

    /// Needs root, unlike everything else here.
    fn refresh(&self) -> Result<()> {
        let mut update = cluster::root_command("apt-get")?;
        process::check(update.args(["update", "--quiet", "--error-on=any"]).env("LC_ALL", "C"))
    }

    fn plan(&self, recipe: &Recipe, extent: Extent) -> Result<Plan> {
        let below: BTreeSet<_> = recipe.os.union(&recipe.python).cloned().collect();
        let mut roots = below.clone();
        if extent >= Extent::Torch {
            roots.extend(recipe.torch.iter().cloned());
        }
        let mut depends = self.command("apt-cache", &["depends", "--recurse"]);
        for unwanted in ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"] {
            depends.arg(format!("--no-{unwanted}"));
        }
        let graph = Dependencies::parse(&process::text(depends.args(&roots))?)?;
        let os = graph.closure(&recipe.os, &recipe.without)?;
        let python = graph.closure(&below, &recipe.without)?;
        let all = graph.closure(&roots, &recipe.without)?;

        // apt passes over what lies in its working folder: it shall look at an empty one.
        let empty = tempfile::tempdir()?;
        let mut download = self.command("apt-get", &["download", "--print-uris"]);
        download.current_dir(empty.path());
        let packages = parse_uris(&process::text(download.args(&all))?)?;
        let found: BTreeSet<_> = packages.iter().map(|package| package.name.clone()).collect();
        ensure!(found == all, "apt offers {found:?} instead of {all:?}");
        let (os, above): (_, Vec<_>) = packages.into_iter().partition(|package| os.contains(&package.name));
        let (python, torch) = above.into_iter().partition(|package| python.contains(&package.name));
        Ok(Plan { os, python, torch })
    }

    fn fetch(&self, packages: &[Package]) -> Result<()> {
        let missing: Vec<_> = packages.iter().filter(|package| !self.holds(package)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let timer = Timer::start();
        let mut download = self.command("apt-get", &["download"]);
        // Running as root, apt would hand the download to its own user, who may not write here, and say so.
        download.args(["-o", "APT::Sandbox::User=root"]);
        download.args(missing.iter().map(|package| format!("{}={}", package.name, package.version)));
        process::text(&mut download)?;
        for package in &missing {
            if !self.holds(package) {
                fs::remove_file(self.path(package)).ok();
                anyhow::bail!("{} is not what apt announced", package.file);
            }
        }
        let bytes =
            missing.iter().filter_map(|package| fs::metadata(self.path(package)).ok()).map(|data| data.len());
        timer.done(format!("downloaded {} Debian packages", missing.len()), bytes.sum());
        Ok(())
    }

    fn holds(&self, package: &Package) -> bool {
        tree::file_hash(&self.path(package)).is_ok_and(|hash| hash == package.sha256)
    }

    fn path(&self, package: &Package) -> PathBuf {
        self.folder.join(&package.file)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env("LC_ALL", "C").args(arguments);
        for name in ["pkgcache", "srcpkgcache"] {
            // Machines made from container images often have apt's own index cache switched off: half a second each.
            command.arg("-o").arg(format!("Dir::Cache::{name}={}", self.folder.join(name).display()));
        }
        command
    }

    /// The folder with the files of `packages`, finished by `finish`.
    pub(super) fn tree(
        &self,
        trees: &Path,
        name: &str,
        key: Key,
        packages: &[Package],
        recipe: &Recipe,
        finish: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let key = packages.iter().fold(key, |key, package| key.with(&package.sha256));
        tree::cached(trees, name, key, |root| {
            let timer = Timer::start();
            for package in packages {
                unpack::unpack(&self.path(package), root, |path| recipe.prunes(path))?;
            }
            finish(root)?;
            timer.done(format!("unpacked the {name} layer"), tree::size(root)?);
            Ok(())
        })
    }
}

/// What the base of every image needs beyond its packages' files.
pub(super) fn finish_os(root: &Path) -> Result<()> {
    for folder in ["bin", "lib", "lib64", "sbin"] {
        tree::link(root, folder, format!("usr/{folder}"))?;
        fs::create_dir_all(root.join("usr").join(folder))?;
    }
    tree::write(root, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")?;
    bundle_certificates(root)
}

/// Joins the single certificates of the package `ca-certificates` to the one file that programs read: what its
/// maintainer script does on an installed system.
fn bundle_certificates(root: &Path) -> Result<()> {
    let folder = root.join("usr/share/ca-certificates");
    let mut bundle = String::new();
    for file in tree::files(&folder)? {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        ensure!(text.starts_with("-----BEGIN CERTIFICATE-----"), "{} is no certificate", file.display());
        bundle.push_str(text.trim_end());
        bundle.push('\n');
    }
    ensure!(!bundle.is_empty(), "ca-certificates holds none");
    fs::remove_dir_all(folder)?;
    tree::write(root, "etc/ssl/certs/ca-certificates.crt", bundle)
}

/// `NAME=VERSION …`, for the image's label.
pub(super) fn label<'a>(packages: impl IntoIterator<Item = &'a Package>) -> String {
    let words: Vec<_> =
        packages.into_iter().map(|package| format!("{}={}", package.name, package.version)).collect();
    words.join(" ")
}

/// Lines of `apt-get download --print-uris`: `'URI' NAME_VERSION_ARCHITECTURE.deb SIZE SHA256:HEX`, where a `:` in
/// the version is written `%3a`.
fn parse_uris(text: &str) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('\'')) {
        let package = parse_uri(line).with_context(|| format!("apt-get printed {line:?}"))?;
        packages.push(package);
    }
    packages.sort();
    Ok(packages)
}

fn parse_uri(line: &str) -> Result<Package> {
    let mut words = line.split_whitespace().skip(1);
    let file = words.next().context("no file name")?.to_owned();
    let hash = words.nth(1).context("no hash")?;
    let sha256 = hash.strip_prefix("SHA256:").context("no SHA-256")?.to_owned();
    ensure!(sha256.len() == 64 && !file.contains('/'), "not a package");
    let parts: Vec<_> = file.trim_end_matches(".deb").split('_').collect();
    let [name, version, _architecture] = parts.as_slice() else {
        anyhow::bail!("{file} is not NAME_VERSION_ARCHITECTURE.deb");
    };
    let (name, version) = ((*name).to_owned(), version.replace("%3a", ":"));
    Ok(Package { name, version, file, sha256 })
}

fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines()
        .find(|line| line.starts_with("E: "))
        .or_else(|| text.lines().next())
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_become_packages() {
        let hash = "3d".repeat(32);
        let text = format!(
            "Reading…\n'mirror:/b.deb' busybox-static_1%3a1.35.0-4+deb12u1+b1_amd64.deb 928188 SHA256:{hash}\n\
             'mirror:/a.deb' ca-certificates_20250419~deb12u2_all.deb 160948 SHA256:{hash}\n"
        );
        let packages = parse_uris(&text).unwrap();
        assert_eq!(packages[0].name, "busybox-static");
        assert_eq!(packages[0].version, "1:1.35.0-4+deb12u1+b1");
        assert_eq!(packages[0].file, "busybox-static_1%3a1.35.0-4+deb12u1+b1_amd64.deb");
        assert_eq!(label(&packages[1..]), "ca-certificates=20250419~deb12u2");
        assert!(parse_uris("'mirror:/a.deb' a_1_amd64.deb 5 MD5Sum:00").is_err());
        assert!(parse_uris(&format!("'mirror:/a.deb' ../a_1_amd64.deb 5 SHA256:{hash}")).is_err());
    }

    #[test]
    fn the_certificate_bundle_is_sorted_and_refuses_what_is_none() {
        let root = tempfile::tempdir().unwrap();
        let certificate = |name| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----");
        for name in ["b", "a"] {
            tree::write(
                root.path(),
                &format!("usr/share/ca-certificates/mozilla/{name}.crt"),
                certificate(name),
            )
            .unwrap();
        }
        finish_os(root.path()).unwrap();
        let bundle = fs::read_to_string(root.path().join("etc/ssl/certs/ca-certificates.crt")).unwrap();
        assert_eq!(bundle, format!("{}\n{}\n", certificate("a"), certificate("b")));
        assert!(
            root.path().join("lib").is_symlink() && !root.path().join("usr/share/ca-certificates").exists()
        );

        tree::write(root.path(), "usr/share/ca-certificates/mozilla/c.crt", "hello").unwrap();
        assert!(bundle_certificates(root.path()).is_err());
    }
}
