//! Behind the keys: whatever a rogue says between the handshake and the verdict, and right after.

use sealane_protocol::connection::{Event, Sink};
use sealane_protocol::frame::Frame;
use sealane_support::rogue::{BULK, Opposed, RogueIs};
use sealane_types::Reason;

use crate::script::Script;

#[derive(Default)]
struct Heard(usize);

impl Sink for Heard {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        self.0 += 1;
        Ok(())
    }
}

/// In place of a length: what follows is the length, in one byte, and the plaintext of a bulk record.
const BULK_FOLLOWS: u16 = u16::MAX - 1;

/// First byte: the rogue's role. Then records: their plaintexts, each behind its length; length 0xffff is a key update, and
/// [`BULK_FOLLOWS`] a bulk record.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let rogue_is = match script.byte() {
        Some(byte) if byte & 1 == 1 => RogueIs::Responder,
        _ => RogueIs::Initiator,
    };
    let mut opposed = Opposed::keyed(rogue_is);
    let mut heard = Heard::default();
    while let Some(length) = script.word() {
        let said = match length {
            u16::MAX => {
                let update = opposed.rogue.seal.update();
                opposed.deliver(&update, &mut heard)
            }
            BULK_FOLLOWS => {
                let length = script.byte().unwrap_or_default();
                let record = opposed.rogue.seal.seal(BULK, script.bytes(length.into()));
                opposed.deliver(&record, &mut heard)
            }
            _ => opposed.say(script.bytes(length.into()), &mut heard),
        };
        let established = opposed.events.iter().any(|event| matches!(event, Event::Established { .. }));
        assert!(heard.0 == 0 || established, "data came up before the verdict");
        assert!(!established || opposed.honest.peer().is_some(), "established without a verdict");
        if let Err(fail) = said {
            assert!(opposed.honest.is_closed(), "{fail} and still open");
        }
        if opposed.honest.is_closed() {
            let ends = opposed.events.iter().filter(|event| matches!(event, Event::Closed { .. }));
            assert_eq!(ends.count(), 1, "{:?}", opposed.events);
            assert_eq!(opposed.honest.poll_timeout(), None);
            opposed.hear();
            return;
        }
        opposed.hear();
    }
}
