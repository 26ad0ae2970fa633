//! Paths inside an image: relative, plain, and under `/usr` where Debian expects them.

use std::path::{Component, Path};

use anyhow::{Context, Result, bail};

/// Matches whole paths. `*` stands for any characters, `/` included; a trailing `/` for everything below.
#[derive(Debug)]
pub(super) struct Pattern(String);

impl Pattern {
    pub(super) fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.ends_with('/') {
            text.push('*');
        }
        Self(text)
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else {
            return self.0 == path;
        };
        let Some(mut path) = path.strip_prefix(start) else {
            return false;
        };
        let mut parts: Vec<_> = rest.split('*').collect();
        let end = parts.pop().unwrap_or_default();
        for part in parts {
            let Some(at) = path.find(part) else {
                return false;
            };
            path = &path[at + part.len()..];
        }
        path.ends_with(end)
    }
}

/// A member of a package's archive, as a relative path with merged `/usr`: packages of Debian 12 still ship some
/// files under `/lib`, which every installation makes a link to `/usr/lib`. `None` for the root itself.
pub(super) fn merged(member: &Path) -> Result<Option<String>> {
    let mut parts = Vec::new();
    for component in member.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => {
                parts.push(part.to_str().with_context(|| format!("{} is not UTF-8", member.display()))?);
            }
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => {
                bail!("{} leaves the package's root", member.display())
            }
        }
    }
    Ok(match parts.first() {
        None => None,
        Some(&("bin" | "sbin" | "lib" | "lib32" | "lib64" | "libx32")) => {
            Some(format!("usr/{}", parts.join("/")))
        }
        Some(_) => Some(parts.join("/")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let matches = |pattern: &str, path| Pattern::new(pattern).matches(path);
        assert!(matches("usr/bin/pdb", "usr/bin/pdb") && !matches("usr/bin/pdb", "usr/bin/pdb3"));
        assert!(
            matches("usr/share/man/", "usr/share/man/man1/x") && !matches("usr/share/man/", "usr/share/man")
        );
        assert!(matches("usr/lib/*-gnu/gconv/", "usr/lib/x86_64-linux-gnu/gconv/a.so"));
        assert!(matches("*/tests/", "numpy/lib/tests/a.py") && !matches("*/tests/", "numpy/latests/a.py"));
        assert!(matches("*.pyi", "a/b.pyi") && !matches("*.pyi", "a/b.py"));
        assert!(matches("a*b*c", "a1b2c") && !matches("a*b*c", "a1c2b"));
    }

    #[test]
    fn members_merge_into_usr_and_never_leave_the_root() {
        let merged = |path: &str| merged(Path::new(path));
        assert_eq!(
            merged("./lib/x86_64-linux-gnu/libc.so.6").unwrap().unwrap(),
            "usr/lib/x86_64-linux-gnu/libc.so.6"
        );
        assert_eq!(merged("./lib64/ld.so").unwrap().unwrap(), "usr/lib64/ld.so");
        assert_eq!(merged("./etc/passwd").unwrap().unwrap(), "etc/passwd");
        assert_eq!(merged("./libexec/x").unwrap().unwrap(), "libexec/x");
        assert_eq!(merged("./").unwrap(), None);
        assert!(merged("../etc/passwd").is_err());
        assert!(merged("/etc/passwd").is_err());
        assert!(merged("usr/../../x").is_err());
    }
}
