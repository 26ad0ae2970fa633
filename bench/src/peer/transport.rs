//! `confidential-ml-transport`, as its users get it: its default cipher, its mock attestation.

use anyhow::{Result, bail};
use bytes::Bytes;
use confidential_ml_transport::session::channel::Message;
use confidential_ml_transport::{MockProvider, MockVerifier, SecureChannel, SessionConfig};

use crate::carrier::Carrier;
use crate::message::Inbox;
use crate::wire::{Open, Side, Wire};

/// The name that rows carry.
pub(crate) const NAME: &str = "confidential-ml-transport 0.6.2";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Transport;

pub(crate) struct Channel(SecureChannel<Carrier>);

impl Open for Transport {
    type Wire = Channel;

    async fn open(&self, carrier: Carrier, side: Side) -> Result<Channel> {
        let (provider, verifier) = (MockProvider::new(), MockVerifier::new());
        let config = SessionConfig::development();
        let opened = match side {
            Side::Dialler => {
                SecureChannel::connect_with_attestation(carrier, &provider, &verifier, config).await
            }
            Side::Accepter => {
                SecureChannel::accept_with_attestation(carrier, &provider, &verifier, config).await
            }
        };
        Ok(Channel(opened?))
    }
}

impl Wire for Channel {
    async fn put(&mut self, message: &Bytes) -> Result<()> {
        Ok(self.0.send(message.clone()).await?)
    }

    /// Its sends end when the bytes have left.
    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()> {
        while inbox.count() < count {
            let message = self.receive().await?;
            inbox.accept(&message);
        }
        Ok(())
    }

    async fn echo(&mut self, inbox: &mut Inbox) -> Result<()> {
        let message = self.receive().await?;
        inbox.accept(&message);
        Ok(self.0.send(message).await?)
    }
}

impl Channel {
    async fn receive(&mut self) -> Result<Bytes> {
        match self.0.recv().await? {
            Message::Data(bytes) => Ok(bytes),
            other => bail!("{NAME} handed up {other:?}"),
        }
    }
}
