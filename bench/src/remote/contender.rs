//! Whose accepting end a server opens, with all that both ends have to share.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_types::Cipher;
use serde::{Deserialize, Serialize};

use crate::ours::Ours;
use crate::peer::tls::SharedTls;
use crate::world::{SharedWorld, World};

/// As the end that dials names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Contender {
    Ours { cipher: Cipher, world: SharedWorld },
    OursOverUdp { cipher: Cipher, world: SharedWorld, answer: Duration },
    Plaintext,
    Tls(SharedTls),
    Quinn(SharedTls),
    ConfidentialMlTransport,
}

impl Contender {
    /// Whether its data is datagrams.
    pub(super) const fn needs_datagrams(&self) -> bool {
        matches!(self, Self::Quinn(_) | Self::OursOverUdp { .. })
    }
}

/// Our parties under `cipher`, with the hybrid key exchange.
pub(crate) fn ours(world: &Arc<World>, cipher: Cipher) -> Result<Ours> {
    Ours::new(world, Suite::new(KeyExchange::Hybrid, cipher))
}
