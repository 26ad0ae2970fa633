//! Pipes whose other side holds genuine keys and no promise: one side's table, senders and receivers.

use std::collections::BTreeMap;

use sealane_attestation::binding::Role;
use sealane_protocol::frame::PipeId;
use sealane_protocol::limits::{PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX, PIPES_MAX};
use sealane_protocol::transfer::pipe::{PipeReceiver, PipeSender, PipeTable};

use crate::script::Script;

/// What is believed about one pipe.
struct Model {
    granted: u64,
    received: u64,
    taken: u64,
    ended: bool,
    sent: u64,
    through: u64,
}

impl Model {
    const fn new() -> Self {
        let granted = PIPE_WINDOW_BYTES;
        Self { granted, received: 0, taken: 0, ended: false, sent: 0, through: granted }
    }
}

type Pipe = (PipeSender, PipeReceiver);

/// First byte: the role of this side.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let role = if script.byte().unwrap_or_default() & 1 == 0 { Role::Initiator } else { Role::Responder };
    let mut table: PipeTable<Pipe> = PipeTable::new(role);
    let mut models: BTreeMap<PipeId, Model> = BTreeMap::new();
    let mut last = None;
    while let Some(kind) = script.byte() {
        let id = PipeId(script.byte().unwrap_or_default().into());
        let amount = u64::from(script.word().unwrap_or_default()) * 16;
        let fresh = || (PipeSender::new(), PipeReceiver::new());
        let fault = match kind % 8 {
            0 => {
                match table.open(fresh()) {
                    Ok(opened) => {
                        assert!(role == Role::Initiator && last.is_none_or(|last| opened > last));
                        last = Some(opened);
                        models.insert(opened, Model::new());
                    }
                    Err(_) => assert!(role == Role::Responder || table.len() == PIPES_MAX),
                }
                false
            }
            1 => match table.on_open(id, fresh) {
                Ok(_) => {
                    assert!(role == Role::Responder && last.is_none_or(|last| id > last), "{id:?} twice");
                    last = Some(id);
                    models.insert(id, Model::new());
                    false
                }
                Err(_) => true,
            },
            2 => {
                table.remove(id);
                models.remove(&id);
                false
            }
            kind => match table.find(id) {
                Ok(Some(pipe)) => models.get_mut(&id).unwrap().act(kind, pipe, amount),
                Ok(None) => {
                    assert!(last.is_some_and(|last| id <= last) && !models.contains_key(&id));
                    false
                }
                Err(_) => {
                    assert!(last.is_none_or(|last| id > last), "{id:?} was opened");
                    true
                }
            },
        };
        assert_eq!(table.len(), models.len());
        if fault {
            return;
        }
    }
}

impl Model {
    /// Whether the peer is at fault.
    fn act(&mut self, kind: u8, (sender, receiver): &mut Pipe, amount: u64) -> bool {
        match kind {
            3 => {
                let bytes = vec![0; amount as usize];
                if receiver.on_data(&bytes).is_err() {
                    assert!(
                        self.ended || self.received + amount > self.granted,
                        "an honest sender is refused"
                    );
                    return true;
                }
                self.received += amount;
                assert!(!self.ended && self.received <= self.granted, "more than was granted");
                assert!(receiver.held() <= PIPE_WINDOW_BYTES_MAX, "more is held than a window");
            }
            4 => {
                let taken = amount.min(receiver.held());
                receiver.taken(taken);
                self.taken += taken;
                if amount > 1 << 19 {
                    receiver.widen(amount * 64);
                }
                if let Some(through) = receiver.credit_due() {
                    assert!(through > self.granted && through <= self.taken + PIPE_WINDOW_BYTES_MAX);
                    receiver.credit_sent(through);
                    self.granted = through;
                }
            }
            5 => {
                if receiver.on_end(amount).is_err() {
                    return true;
                }
                assert!(!self.ended && amount == self.received, "an end that is not the truth");
                self.ended = true;
                assert_eq!(receiver.is_over(), receiver.held() == 0);
            }
            6 => {
                let through = self.through.saturating_add(amount << 8).saturating_sub(1 << 12);
                if sender.on_credit(through).is_err() {
                    return true;
                }
                assert!(through >= self.through && through <= self.sent + PIPE_WINDOW_BYTES_MAX);
                self.through = through;
            }
            _ => {
                let sent = amount.min(sender.room());
                sender.sent(sent);
                self.sent += sent;
                assert!(self.sent <= self.through, "sent without credit");
                assert_eq!(sender.total(), self.sent);
            }
        }
        assert_eq!(receiver.held(), self.received - self.taken);
        false
    }
}
