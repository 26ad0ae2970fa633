//! The Sealane protocol without sockets, clock, tasks or random numbers: bytes, time and randomness are handed
//! in, bytes and events come out.
//!
//! Invariant: no tensor byte is sealed for, or handed up from, a peer that is not a
//! [`VerifiedPeer`](sealane_attestation::VerifiedPeer) of this very connection, and nothing that was deleted,
//! repeated, reordered, reflected or changed on the way is ever accepted. `PROTOCOL.md` beside this crate is
//! normative; `tests/vectors` recompute it in Python.
//!
//! # Contract: one mutation, then drain
//!
//! [`connection::Connection`] is driven by a shell that owns the carrier. After **every** call that takes
//! `&mut self` and may change it (`handle_input`, `handle_timeout`, `send*`, `judged`, …) the shell
//!
//! 1. calls [`poll_event`](connection::Connection::poll_event) until it returns `None`,
//! 2. writes [`poll_output`](connection::Connection::poll_output) to the carrier, tells
//!    [`output_written`](connection::Connection::output_written) how much went, until it returns an empty slice
//!    (or the carrier is full),
//! 3. re-arms its timer with [`poll_timeout`](connection::Connection::poll_timeout).
//!
//! Dropping a future between these steps loses nothing: written bytes are counted only when reported, so a
//! cancelled send cannot tear the stream.
//!
//! # From first byte to first tensor
//!
//! | event | the shell answers with |
//! |---|---|
//! | `Introduced` | nothing, or `close` (unknown session, …) |
//! | `PolicyWanted` (the remote is behind) | `supply_policy` |
//! | `PolicyOffered` (the remote is ahead) | verify, then `policy_adopted` or `close` |
//! | `AuditorIntroduced` | `admit_auditor` or `close` |
//! | `EvidenceWanted` | quote, then `supply_evidence` |
//! | `EvidenceReceived` | check the session against the policy, appraise, then `judged` |
//! | `TicketPresented` (a connection is resumed) | take it from [`ticket::Issued`], then `answer_ticket` |
//! | `ResumptionOffered` | check the session, judge the stored claims again, then `judged` |
//! | `Established` | `send` and `send_bytes`; frames and bulk records arrive at its [`Sink`](connection::Sink). A responder may `issue_ticket` |
//! | `TicketReceived` | keep it in [`ticket::Held`] for [`Connection::resume`](connection::Connection::resume) |
//! | `Closed` | drain the output, close the carrier |
//!
//! The initiator proves first, so a responder quotes for nobody unproved. `transfer` holds the state of one
//! stream on top: [`transfer::Outbound`] and [`transfer::Inbound`]. Over a carrier that keeps no order a
//! [`datagram::Engine`] takes the place of the carrier's bytes.
//!
//! Where both sides have them, [`connection::LinkTerms`] begin further links, which bring bytes of large tensors beside the
//! connection's own.
//!
//! Deliberately absent: I/O, time, an RNG, policy verification and evidence appraisal: their results are handed in.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)
)]

mod codec;
pub mod connection;
pub mod datagram;
pub mod frame;
pub mod handshake;
pub mod keys;
pub mod limits;
mod moment;
pub mod record;
mod recovery;
mod size;
pub mod ticket;
pub mod transfer;
#[cfg(test)]
mod vectors;

pub use codec::CodecError;
pub use moment::Moment;
