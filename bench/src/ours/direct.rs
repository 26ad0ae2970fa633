//! Two connections that hand each other their bytes in one thread: no carrier, no task and no runtime between them.

use anyhow::{Result, bail, ensure};
use sealane_protocol::Moment;
use sealane_protocol::connection::Connection;
use sealane_protocol::record::Rekey;

use super::{Nothing, Ours};
use crate::wire::Side;

/// Rounds of a handshake after which it leads nowhere.
const ROUNDS_MAX: u32 = 32;
const SIDES: [Side; 2] = [Side::Dialler, Side::Accepter];

/// Takes bytes of one side to the other.
pub(crate) trait Carry {
    /// Appends `bytes`, which `from` sent, to what the other side has read.
    fn carry(&mut self, from: Side, bytes: &[u8], read: &mut Vec<u8>) -> Result<()>;
}

/// Nothing lies between the two.
pub(crate) struct Memory;

impl Carry for Memory {
    fn carry(&mut self, _: Side, bytes: &[u8], read: &mut Vec<u8>) -> Result<()> {
        read.extend_from_slice(bytes);
        Ok(())
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) dialled: Connection,
    pub(crate) accepted: Connection,
    /// What the next input of either side is gathered in.
    input: Vec<u8>,
}

impl Ours {
    /// What the dialling side says first.
    pub(crate) fn initiate(&self) -> Result<Connection> {
        self.sender.begin(Side::Dialler, self.clock.now())
    }

    /// The side that waits for it.
    pub(crate) fn accept(&self) -> Result<Connection> {
        self.receiver.begin(Side::Accepter, self.clock.now())
    }

    /// Both sides until they share keys; neither has proved anything then.
    pub(crate) fn agree(&self, carry: &mut impl Carry) -> Result<Direct> {
        let mut direct = Direct { dialled: self.initiate()?, accepted: self.accept()?, input: Vec::new() };
        for _ in 0..ROUNDS_MAX {
            for from in SIDES {
                direct.say(from, self.now(), carry)?;
                if direct.accepted.suite().is_some() {
                    return Ok(direct);
                }
            }
        }
        bail!("a handshake leads nowhere")
    }

    /// Both sides with their verdicts, replacing keys as `rekey` says.
    pub(crate) fn direct(&self, rekey: Rekey) -> Result<Direct> {
        let begin = |side| self.party(side).begin_replacing(rekey, side, self.now());
        let (dialled, accepted) = (begin(Side::Dialler)?, begin(Side::Accepter)?);
        let mut direct = Direct { dialled, accepted, input: Vec::new() };
        for _ in 0..ROUNDS_MAX {
            for from in SIDES {
                direct.say(from, self.now(), &mut Memory)?;
                let to = from.other();
                let connection = direct.side(to);
                while let Some(event) = connection.poll_event() {
                    self.party(to).answer(event, connection, self.now())?;
                }
            }
            if direct.dialled.is_established() && direct.accepted.is_established() {
                return Ok(direct);
            }
        }
        bail!("a handshake leads nowhere")
    }

    /// The time as connections of this party see it.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }
}

impl Direct {
    /// Whether both sides derived the same keys.
    pub(crate) fn agrees(&self) -> bool {
        let (one, other) = (self.dialled.public_id(), self.accepted.public_id());
        one.is_some() && one == other
    }

    const fn side(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Dialler => &mut self.dialled,
            Side::Accepter => &mut self.accepted,
        }
    }

    /// Hands everything that the side `from` has to say to the other.
    fn say(&mut self, from: Side, now: Moment, carry: &mut impl Carry) -> Result<()> {
        let Self { dialled, accepted, input } = self;
        let (one, other) = match from {
            Side::Dialler => (dialled, accepted),
            Side::Accepter => (accepted, dialled),
        };
        drain(one, now, |bytes| carry.carry(from, bytes, input))?;
        let used = other.handle_input(now, input, &mut Nothing)?;
        ensure!(used == input.len(), "a message came in pieces");
        input.clear();
        Ok(())
    }
}

/// Seals what `connection` has queued and hands it to `take`.
pub(crate) fn drain(
    connection: &mut Connection,
    now: Moment,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        let output = connection.poll_output(now);
        if output.is_empty() {
            return Ok(());
        }
        let length = output.len();
        take(output)?;
        connection.output_written(length);
    }
}
