//! The second implementation and the first understand each other: the page says what both do.

use sealane_protocol::connection::{Fail, IssueError, Sink};
use sealane_protocol::frame::{Frame, Sequence};
use sealane_protocol::record::RecordError;
use sealane_protocol::ticket::Issued;
use sealane_support::pair::{STREAM, open_frame, taken_frame};
use sealane_support::rehearsal::rehearsed;
use sealane_support::rogue::{Opposed, RogueIs, confirm, frame, ready, split};
use sealane_support::world::{Counter, Who};
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

/// The name and the secret of a ticket that an honest responder gave to a rogue, as the page says.
fn ticket(issued: &mut Issued) -> ([u8; 16], [u8; 32], Opposed) {
    let mut opposed = Opposed::taking_tickets();
    let deadline = opposed.now.plus_micros(60_000_000);
    let ticket = opposed.honest.issue_ticket(deadline, &mut Counter(3)).unwrap();
    issued.insert(ticket, opposed.now);
    let said = opposed.hear().concat();
    let frame = split(&said).pop().unwrap();
    assert_eq!((frame[0], &frame[20..]), (0x0a, &60_u32.to_be_bytes()[..]));
    let id = frame[4..20].try_into().unwrap();
    let shown = |who| rehearsed(who).evidence.encode().unwrap();
    let secret = opposed.rogue.tickets.secret(&id, &shown(Who::Embedder), &shown(Who::Ranker));
    (id, secret, opposed)
}

#[test]
fn a_ticket_of_the_page_opens_a_connection_once() {
    let mut issued = Issued::default();
    let (id, secret, first) = ticket(&mut issued);
    let mut opposed = Opposed::presented(id, secret, &mut issued, first.now).unwrap();
    let claim = confirm(&opposed.claim());
    opposed.say(&claim, &mut Count(0)).unwrap();
    let said = opposed.hear().concat();
    let frames: Vec<_> = split(&said).iter().map(|frame| frame[0]).collect();
    assert_eq!(frames, [0x01, 0x04], "its confirm frame and its acceptance");
    assert!(!opposed.honest.is_established());
    opposed.say(&ready(), &mut Count(0)).unwrap();
    assert!(opposed.honest.is_established());
    // It leads to another one, which rests on the same evidence.
    let ticket = opposed.honest.issue_ticket(first.now.plus_micros(60_000_000), &mut Counter(4)).unwrap();
    issued.insert(ticket, first.now);
    let said = opposed.hear().concat();
    let next: [u8; 16] = split(&said).pop().unwrap()[4..20].try_into().unwrap();
    let shown = |who| rehearsed(who).evidence.encode().unwrap();
    let next_secret = opposed.rogue.tickets.secret(&next, &shown(Who::Embedder), &shown(Who::Ranker));
    assert!(Opposed::presented(next, next_secret, &mut issued, first.now).is_ok());
    for id in [id, next] {
        let again = Opposed::presented(id, secret, &mut issued, first.now).err();
        assert_eq!(again, Some(Reason::TicketRefused));
    }
}

#[test]
fn who_has_the_name_of_a_ticket_has_nothing() {
    let mut issued = Issued::default();
    let (id, secret, first) = ticket(&mut issued);
    let mut other = secret;
    other[0] ^= 1;
    let refused = Opposed::presented(id, other, &mut issued, first.now).err();
    assert_eq!(refused, Some(Reason::HandshakeFailed));
    let late = Opposed::presented(id, secret, &mut issued, first.now).err();
    assert_eq!(late, Some(Reason::TicketRefused), "it was presented");
}

#[test]
fn who_never_asked_for_tickets_gets_none() {
    let mut opposed = Opposed::established(RogueIs::Initiator);
    let deadline = opposed.now.plus_micros(60_000_000);
    let refused = opposed.honest.issue_ticket(deadline, &mut Counter(3)).unwrap_err();
    assert_eq!(refused, IssueError::NotNow);
}
