//! `make model`: looks for attacks on the handshake with Verifpal, a symbolic analyser of protocols.
//!
//! It is a tool beside the project: built from its registry at a fixed version, linked with nothing of ours. The first
//! version that has key encapsulation needs no newer compiler than this project's, whatever its manifest says.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{cluster, process, progress};

const FOLDER: &str = "protocol/model";
const VERSION: &str = "1.3.6";

/// One question, and the answer that it must have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    name: String,
    file: String,
    #[serde(default)]
    takes: Vec<Edit>,
    /// Runs of each principal that the attacker may mix.
    sessions: u8,
    answer: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    find: String,
    replace: String,
}

/// Asks every question.
///
/// # Errors
/// A tool that cannot be built, an edit that finds nothing, or an answer other than the expected one.
pub fn run(root: &Path) -> Result<()> {
    let questions = questions(root)?;
    let verifpal = tool()?;
    let mut wrong = 0_usize;
    for Question { name, file, takes, sessions, answer } in &questions {
        let text = edited(&fs::read_to_string(root.join(FOLDER).join(file))?, takes)
            .with_context(|| format!("{name} ({file})"))?;
        let said = ask(Command::new(&verifpal), &text, *sessions)?;
        let verdict = if said == *answer { "as expected" } else { "NOT AS EXPECTED" };
        wrong = wrong.saturating_add(usize::from(said != *answer));
        progress::print(&format!("{said}  {verdict:<16} {name} ({sessions} at a time)"));
    }
    if wrong > 0 {
        bail!(
            "{wrong} of {} answers are not the expected ones; {FOLDER}/models.yaml says which",
            questions.len()
        );
    }
    progress::print(
        "No attack was found in bounded sessions where none must be, and each where an answer is missing.",
    );
    Ok(())
}

fn questions(root: &Path) -> Result<Vec<Question>> {
    let list = root.join(FOLDER).join("models.yaml");
    let text = fs::read(&list).with_context(|| format!("reading {}", list.display()))?;
    serde_norway::from_slice(&text).with_context(|| format!("parsing {}", list.display()))
}

fn edited(text: &str, takes: &[Edit]) -> Result<String> {
    takes.iter().try_fold(text.to_owned(), |text, Edit { find, replace }| {
        ensure!(text.contains(find.as_str()), "`{find}` does not occur");
        Ok(text.replace(find.as_str(), replace))
    })
}

/// The code of verdicts: the last line that the tool prints.
fn ask(mut verifpal: Command, text: &str, sessions: u8) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let model = folder.path().join("model.vp");
    fs::write(&model, text)?;
    let said = process::text(
        verifpal.args(["verify", "--quiet", "--result-code", "--sessions", &sessions.to_string()]).arg(model),
    )?;
    Ok(said.lines().last().unwrap_or_default().trim().to_owned())
}

fn tool() -> Result<std::path::PathBuf> {
    let folder = cluster::cache_folder()?.join(format!("verifpal-{VERSION}"));
    let program = folder.join("bin/verifpal");
    if !program.exists() {
        progress::step("Building Verifpal (about 2 minutes, the first time)", || {
            process::check(
                Command::new("cargo")
                    .args(["install", "verifpal", "--version", VERSION, "--locked", "--quiet"])
                    .args(["--ignore-rust-version", "--root"])
                    .arg(&folder),
            )
        })?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_finds_what_it_takes_away() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let questions = questions(root).unwrap();
        assert!(questions.iter().any(|question| question.answer.contains('1')), "a model can fail");
        for Question { name, file, takes, .. } in questions {
            let text = fs::read_to_string(root.join(FOLDER).join(file)).unwrap();
            edited(&text, &takes).expect(&name);
        }
    }
}
