//! Running other programs, with errors that say what ran and what it said.

use std::{
    io::ErrorKind,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Error, Result, anyhow, bail};

/// How much of a failed program's output an error repeats.
const TAIL_LINES: usize = 20;

/// How to install what a bare machine may lack.
const REMEDIES: &[(&str, &str)] = &[
    ("go", "install Go 1.26 or newer as https://go.dev/doc/install says"),
    ("gcc", "apt-get install gcc libc6-dev"),
    ("bash", "apt-get install bash"),
    ("sudo", "apt-get install sudo, or run the command as root"),
    ("unshare", "apt-get install util-linux"),
    ("nsenter", "apt-get install util-linux"),
    ("mount", "apt-get install mount"),
    ("apt-get", "the local cluster needs Debian or a system made from it"),
    ("apt-cache", "the local cluster needs Debian or a system made from it"),
    ("dpkg-deb", "images are made of Debian 12's packages: build them there"),
    ("kind", "go install sigs.k8s.io/kind@latest"),
    ("python3", "apt-get install python3 python3-pip"),
    ("dpkg", "the local cluster needs Debian or a system made from it"),
];

/// Fails with one line for each program that is not on `PATH`, and how to install it.
pub fn require(programs: &[&str]) -> Result<()> {
    let missing: Vec<_> =
        programs.iter().filter(|program| find(program).is_none()).map(|p| remedy(p)).collect();
    if missing.is_empty() { Ok(()) } else { bail!(missing.join("\n")) }
}

/// The full path of a program, as the shell would find it.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

/// This very program, even after a build has put another in its place: `cargo test` does, while `cargo xtask test` runs.
pub fn own_program() -> std::path::PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

/// Runs a program to its end and hides its output, unless it fails.
pub fn check(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs a program to its end and returns what it wrote to standard output.
pub fn text(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    String::from_utf8(output.stdout).with_context(|| format!("output of {}", name(command)))
}

fn output(command: &mut Command) -> Result<Output> {
    // A program that asks a question would wait for an answer nobody sees the question of.
    let output = command.stdin(Stdio::null()).output().map_err(|error| start_error(command, error))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{} failed with {}\n{}", name(command), output.status, tail(&String::from_utf8_lossy(&said)));
    }
    Ok(output)
}

/// The error for a program that could not be started at all.
pub fn start_error(command: &Command, error: std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        return anyhow!(remedy(&command.get_program().to_string_lossy()));
    }
    Error::new(error).context(format!("start {}", name(command)))
}

/// The last lines of a log, indented.
pub fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(TAIL_LINES));
    last.map(|line| format!("    {line}\n")).collect()
}

fn remedy(program: &str) -> String {
    match REMEDIES.iter().find(|(name, _)| *name == program) {
        Some((_, remedy)) => format!("{program} is missing: {remedy}"),
        None => format!("{program} is missing"),
    }
}

fn name(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().take(3).map(|argument| argument.to_string_lossy()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_remedy() {
        let error = require(&["sh", "gcc-of-another-world"]).unwrap_err();
        assert_eq!(error.to_string(), "gcc-of-another-world is missing");
        assert!(remedy("gcc").contains("apt-get install gcc"));
    }

    #[test]
    fn the_own_program_is_there_whatever_its_path_holds() {
        let program = std::fs::read(own_program()).unwrap();
        assert!(program.starts_with(b"\x7fELF"));
    }

    #[test]
    fn a_failure_repeats_the_end_of_what_was_said() {
        let error = check(Command::new("sh").args(["-c", "seq 100 >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("    100\n"), "{error}");
        assert!(!error.contains("    80\n"), "{error}");
    }
}
