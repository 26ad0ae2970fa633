//! `xtask/images/debian.txt`: which packages, which of their dependencies not, and which of their files not.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::paths::Pattern;

#[derive(Debug, Default)]
pub(super) struct Recipe {
    pub(super) os: BTreeSet<String>,
    pub(super) python: BTreeSet<String>,
    pub(super) torch: BTreeSet<String>,
    pub(super) without: BTreeSet<String>,
    pub(super) prune: Vec<Pattern>,
}

impl Recipe {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut recipe = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            recipe.read(line).with_context(|| format!("line {} of debian.txt", number + 1))?;
        }
        Ok(recipe)
    }

    fn read(&mut self, line: &str) -> Result<()> {
        let words: Vec<_> = line.split_whitespace().collect();
        let fresh = match words.as_slice() {
            [] => true,
            ["os", package] => self.os.insert((*package).to_owned()),
            ["python", package] => self.python.insert((*package).to_owned()),
            ["torch", package] => self.torch.insert((*package).to_owned()),
            ["without", package] => self.without.insert((*package).to_owned()),
            ["prune", pattern] => {
                self.prune.push(Pattern::new(*pattern));
                true
            }
            _ => bail!("expected `os`, `python`, `torch`, `without` or `prune`, and one word"),
        };
        if !fresh {
            bail!("{} is named twice", words[1]);
        }
        Ok(())
    }

    pub(super) fn prunes(&self, path: &str) -> bool {
        self.prune.iter().any(|pattern| pattern.matches(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_sort_into_their_lists_and_mistakes_name_their_line() {
        let recipe =
            Recipe::parse("# c\nos libc6\npython python3.11 # why\nwithout perl\nprune usr/share/man/\n")
                .unwrap();
        assert!(recipe.os.contains("libc6") && recipe.python.contains("python3.11"));
        assert!(recipe.without.contains("perl"));
        assert!(recipe.prunes("usr/share/man/man1/a.1.gz") && !recipe.prunes("usr/share/mango"));

        for wrong in ["os", "layer x", "os a\nos a", "os a b"] {
            let error = Recipe::parse(wrong).unwrap_err();
            assert!(format!("{error:#}").starts_with("line "), "{wrong}: {error:#}");
        }
    }

    #[test]
    fn the_committed_recipe_is_valid() {
        let recipe = Recipe::parse(super::super::DEBIAN).unwrap();
        assert!(recipe.os.contains("libc6"));
        assert!(recipe.prunes("usr/lib/x86_64-linux-gnu/gconv/UTF-7.so"));
        assert!(!recipe.prunes("usr/lib/x86_64-linux-gnu/libc.so.6"));
    }
}
