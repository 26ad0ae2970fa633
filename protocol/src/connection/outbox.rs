//! What the connection itself has to say, in order, until there is room for it.

use std::collections::VecDeque;

use crate::Moment;
use crate::frame::control::{Confirm, Control, Fragment};
use crate::frame::encode;
use crate::keys::{LinkSecret, TicketId};
use crate::limits::FRAGMENT_BYTES_MAX;
use crate::record::{Lane, LevelSealer, Output, OutputError};

/// One thing to say.
#[derive(Debug)]
pub(super) enum Item {
    Confirm(Confirm),
    Policy {
        epoch: u64,
        chain: Vec<u8>,
        sent: usize,
    },
    Evidence {
        message: Vec<u8>,
        sent: usize,
    },
    Ready,
    /// A message of the handshake that renews the connection.
    Renew {
        step: u8,
        message: Vec<u8>,
    },
    Ticket {
        id: TicketId,
        seconds: u32,
    },
    /// Our key is replaced by this one.
    Renewed(Option<LinkSecret>),
    Ping(u64),
    Pong(u64),
}

#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<Item>);

impl Outbox {
    pub(super) fn push(&mut self, item: Item) {
        self.0.push_back(item);
    }

    /// Only the newest ping waits: a link that moves nothing is asked once.
    pub(super) fn push_ping(&mut self, token: u64) {
        self.0.retain(|item| !matches!(item, Item::Ping(_)));
        self.push(Item::Ping(token));
    }

    /// An answer to the newest ping only: however many arrive, one item waits.
    pub(super) fn push_pong(&mut self, token: u64) {
        self.0.retain(|item| !matches!(item, Item::Pong(_)));
        self.push(Item::Pong(token));
    }

    /// A policy that has not begun to travel is replaced by a newer one.
    pub(super) fn push_policy(&mut self, epoch: u64, chain: Vec<u8>) {
        self.0.retain(|item| !matches!(item, Item::Policy { sent: 0, .. }));
        self.push(Item::Policy { epoch, chain, sent: 0 });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives back the room that nothing waits in.
    pub(super) fn release(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Moves what fits into `output`.
    pub(super) fn flush(
        &mut self,
        output: &mut Output,
        sealer: &mut LevelSealer,
        now: Moment,
    ) -> Result<(), OutputError> {
        while let Some(item) = self.0.front_mut() {
            let mut put = |frame: &Control<'_>| {
                output.put_frame(sealer, Lane::Control, now, |space| encode(frame, space))
            };
            let put = match item {
                Item::Renewed(secret) => output.put_renewed(sealer, secret, now).map(|()| true),
                Item::Renew { step, message } => put(&Control::Renew { step: *step, message }).map(|()| true),
                Item::Confirm(confirm) => put(&Control::Confirm(confirm.clone())).map(|()| true),
                Item::Ticket { id, seconds } => {
                    put(&Control::Ticket { id: *id, seconds: *seconds }).map(|()| true)
                }
                Item::Ready => put(&Control::Ready).map(|()| true),
                Item::Ping(token) => put(&Control::Ping(*token)).map(|()| true),
                Item::Pong(token) => put(&Control::Pong(*token)).map(|()| true),
                Item::Policy { epoch, chain, sent } => {
                    let epoch = *epoch;
                    put_part(chain, sent, epoch, |part| put(&Control::Policy(part)))
                }
                Item::Evidence { message, sent } => {
                    put_part(message, sent, 0, |part| put(&Control::Evidence(part)))
                }
            };
            match put {
                Ok(true) => drop(self.0.pop_front()),
                Ok(false) => {}
                Err(OutputError::Full) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Puts the next fragment and says whether it was the last one.
fn put_part(
    bytes: &[u8],
    sent: &mut usize,
    epoch: u64,
    put: impl FnOnce(Fragment<'_>) -> Result<(), OutputError>,
) -> Result<bool, OutputError> {
    let rest = bytes.get(*sent..).unwrap_or_default();
    let part = rest.get(..FRAGMENT_BYTES_MAX).unwrap_or(rest);
    let fits = |length: usize| {
        u32::try_from(length).map_err(|_| OutputError::Frame(crate::codec::CodecError::TooLong))
    };
    put(Fragment { epoch, total: fits(bytes.len())?, offset: fits(*sent)?, bytes: part })?;
    *sent = sent.saturating_add(part.len());
    Ok(*sent == bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_pings_arrive_one_answer_waits() {
        let mut outbox = Outbox::default();
        (0..1000).for_each(|token| outbox.push_pong(token));
        assert!(matches!(outbox.0.make_contiguous(), [Item::Pong(999)]));
    }

    #[test]
    fn however_long_the_link_is_stuck_one_ping_waits() {
        let mut outbox = Outbox::default();
        (0..1000).for_each(|token| outbox.push_ping(token));
        assert!(matches!(outbox.0.make_contiguous(), [Item::Ping(999)]));
    }

    #[test]
    fn a_policy_under_way_is_finished_and_a_waiting_one_replaced() {
        let mut outbox = Outbox::default();
        outbox.push(Item::Policy { epoch: 1, chain: vec![0; 9], sent: 4 });
        (2..9).for_each(|epoch| outbox.push_policy(epoch, vec![0; 9]));
        let epochs: Vec<_> = outbox
            .0
            .iter()
            .map(|item| match item {
                Item::Policy { epoch, .. } => *epoch,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(epochs, [1, 8]);
    }
}
