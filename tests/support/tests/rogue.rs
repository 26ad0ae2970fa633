//! The second implementation and the first understand each other: the page says what both do.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sealane_protocol::connection::{Fail, Sink};
use sealane_protocol::frame::{Frame, Sequence};
use sealane_protocol::record::RecordError;
use sealane_support::pair::{STREAM, open_frame, taken_frame};
use sealane_support::rogue::{Opposed, RogueIs, frame};
use sealane_types::Reason;

struct Count(usize);

impl Sink for Count {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn both_roles_complete_a_handshake_and_exchange_frames() {
    for rogue_is in [RogueIs::Initiator, RogueIs::Responder] {
        let mut opposed = Opposed::established(rogue_is);
        let mut seen = Count(0);
        opposed.honest.send(&open_frame()).unwrap();
        let [plaintext] = <[Vec<u8>; 1]>::try_from(opposed.hear()).unwrap();
        assert_eq!(plaintext[0], 0x10);
        opposed.say(&plaintext, &mut seen).unwrap();
        let update = opposed.rogue.seal.update();
        opposed.deliver(&update, &mut seen).unwrap();
        opposed.say(&plaintext, &mut seen).unwrap();
        assert_eq!(seen.0, 2, "{rogue_is:?}: under both keys");
    }
}

#[test]
fn a_rogue_is_refused_like_anybody() {
    let mut opposed = Opposed::established(RogueIs::Initiator);
    opposed.rogue.seal.sequence += 1;
    let refused = opposed.say(&frame(0x16, &[0, 0, 0, 3]), &mut Count(0));
    assert_eq!(refused, Err(Fail::Record(RecordError::Tag)));
    // Before the verdict it is heard, and refused for what it says.
    let mut opposed = Opposed::keyed(RogueIs::Initiator);
    let refused = opposed.say(&frame(0x16, &[0, 0, 0, 3]), &mut Count(0));
    assert_eq!(refused.unwrap_err().reason(), Reason::FrameMalformed);
    assert!(opposed.honest.send(&taken_frame(&[Sequence(STREAM.0.into())])).is_err());
}
