//! Which packages a set of packages needs, from what `apt-cache depends --recurse` prints.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// Alternatives of one dependency: any of them will do.
type Group = Vec<String>;

/// The dependency graph that apt printed.
#[derive(Debug, Default)]
pub(super) struct Dependencies(BTreeMap<String, Vec<Group>>);

impl Dependencies {
    /// The text has a line per package at the margin, below it `  Depends: NAME`, where ` |Depends: NAME` says that
    /// the next line is an alternative, and `    NAME` lists who provides a virtual package.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut graph = BTreeMap::new();
        let mut package: Option<(String, Vec<Group>)> = None;
        let mut group = Group::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if !line.starts_with(' ') {
                ensure!(group.is_empty(), "apt-cache ends a package within alternatives: {line:?}");
                graph.extend(package.replace((line.trim().to_owned(), Vec::new())));
                continue;
            }
            if line.starts_with("    ") {
                continue;
            }
            let (kind, name) =
                line.split_once(": ").with_context(|| format!("apt-cache printed {line:?}"))?;
            if !matches!(kind.trim_start_matches([' ', '|']), "Depends" | "PreDepends") {
                continue;
            }
            group.push(name.trim().to_owned());
            if !kind.starts_with(" |") {
                let (_, groups) = package.as_mut().context("apt-cache printed a dependency of no package")?;
                groups.push(std::mem::take(&mut group));
            }
        }
        graph.extend(package);
        Ok(Self(graph))
    }

    /// `roots` and everything they need. A dependency that `without` satisfies is left out, and with it whatever
    /// nothing else needs. Of other alternatives the first is taken, as apt does.
    pub(super) fn closure(
        &self,
        roots: &BTreeSet<String>,
        without: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>> {
        let mut needed = BTreeSet::new();
        let mut pending: Vec<&str> = roots.iter().map(String::as_str).collect();
        while let Some(package) = pending.pop() {
            if !needed.insert(package.to_owned()) {
                continue;
            }
            let groups = self.0.get(package).with_context(|| format!("apt knows no package {package}"))?;
            for group in groups.iter().filter(|group| !group.iter().any(|name| without.contains(name))) {
                let Some(first) = group.first() else { continue };
                if first.starts_with('<') {
                    bail!(
                        "{package} needs the virtual package {first}: choose a provider, or leave it out, in debian.txt"
                    );
                }
                pending.push(first);
            }
        }
        Ok(needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
python3.11
  PreDepends: libc6
  Depends: libpython3.11-stdlib
 |Depends: media-types
  Depends: mime-support
ca-certificates
  Depends: openssl
 |Depends: debconf
  Depends: <debconf-2.0>
    cdebconf
    debconf
libc6
  Depends: libgcc-s1
libgcc-s1
  Depends: libc6
libpython3.11-stdlib
  Depends: libnsl2
  Depends: libffi8
  Breaks: python3-all
libnsl2
  Depends: perl
perl
libffi8
media-types
openssl
broken
  Depends: <nothing>
";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn takes_the_first_alternative_and_follows_circles() {
        let graph = Dependencies::parse(PRINTED).unwrap();
        let needed = graph.closure(&set(&["python3.11"]), &set(&[])).unwrap();
        let all = [
            "libc6",
            "libffi8",
            "libgcc-s1",
            "libnsl2",
            "libpython3.11-stdlib",
            "media-types",
            "perl",
            "python3.11",
        ];
        assert_eq!(needed, set(&all));
    }

    #[test]
    fn what_is_left_out_takes_its_own_needs_along() {
        let graph = Dependencies::parse(PRINTED).unwrap();
        let without = set(&["libnsl2", "media-types", "openssl", "debconf"]);
        let needed = graph.closure(&set(&["python3.11", "ca-certificates"]), &without).unwrap();
        let all = ["ca-certificates", "libc6", "libffi8", "libgcc-s1", "libpython3.11-stdlib", "python3.11"];
        assert_eq!(needed, set(&all));
    }

    #[test]
    fn unknown_and_virtual_packages_are_errors() {
        let graph = Dependencies::parse(PRINTED).unwrap();
        let error = graph.closure(&set(&["broken"]), &set(&[])).unwrap_err();
        assert!(error.to_string().contains("<nothing>"));
        assert!(graph.closure(&set(&["absent"]), &set(&[])).is_err());
        assert!(Dependencies::parse("  Depends: orphan\n").is_err());
        assert!(Dependencies::parse("a\n |Depends: b\nc\n").is_err());
    }
}
