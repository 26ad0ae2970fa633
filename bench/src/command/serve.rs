//! The other end of a run elsewhere.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use zeroize::Zeroizing;

use super::progress::note;
use crate::programs::KEY;
use crate::remote::{self, Token};

const PORT: u16 = 14_720;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen [default: port 14720 of every address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

impl Serve {
    /// Serves until a run says that it is over.
    pub(super) fn run(&self) -> Result<()> {
        let token = token()?;
        let listener = match self.listen {
            Some(address) => TcpListener::bind(address),
            // A machine without IPv6 has no such address.
            None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))),
        };
        let listener = listener.context("listening")?;
        note(&format!("listening on {}", listener.local_addr()?));
        remote::serve(listener, token)
    }
}

/// What both ends of a run know.
pub(super) fn token() -> Result<Token> {
    let key = Zeroizing::new(std::env::var(KEY).unwrap_or_default());
    ensure!(!key.is_empty(), "{KEY} is not set: both ends of a run know its key");
    Ok(Token::of(&key))
}
