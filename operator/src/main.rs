//! `sealane-operator`: parses its configuration, starts logging and runs.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use sealane_operator::config::{Arguments, Config};
use sealane_operator::probe::Probe;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| word == "probe") {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .init();
        return end(Probe::parse_from(words).run().await);
    }
    let arguments = Arguments::parse();
    let Ok(filter) = EnvFilter::try_new(&arguments.log) else {
        return usage(&format!("`{}` is not a log filter", arguments.log));
    };
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        logging.init()
    } else {
        logging.json().init()
    }
    let config = match Config::new(arguments) {
        Ok(config) => config,
        Err(error) => return usage(&format!("{:#}", anyhow::Error::new(error))),
    };
    end(sealane_operator::run::run(config).await)
}

fn end(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "stopped");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "logging is not set up when the configuration is wrong")]
fn usage(message: &str) -> ExitCode {
    eprintln!("sealane-operator: {message}");
    ExitCode::from(2)
}
