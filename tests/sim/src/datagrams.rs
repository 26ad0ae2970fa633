//! A network of datagrams in virtual time, for whatever speaks them.
//!
//! Participants (`node`) send to addresses. Between two of them a `path` in each direction delays, deletes, repeats,
//! changes and reorders what they send, or takes nothing above some size; paths meet at a `link`, which has a rate and a
//! queue that others fill as well. An `intruder` sees everything and says what it likes under any address. `network`
//! lets time pass; `tally` says what became of what was sent. All of it follows from one seed.
//!
//! A `speaker` is a connection over datagrams with an application, and a `crossing` is where two or more of them meet; a
//! `trial` lets random things happen to two of them (`happening`).

mod crossing;
mod event;
mod happening;
mod intruder;
mod link;
mod network;
mod node;
mod path;
mod speaker;
mod steps;
mod tally;
#[cfg(test)]
mod tests;
mod trial;

pub use crossing::{Crossing, Flow, address_of_initiator, address_of_responder};
pub use happening::{Happening, happenings};
pub use intruder::{Inserted, Intruder, Seen};
pub use link::{Link, LinkId};
pub use network::Network;
pub use node::{Node, NodeId};
pub use path::Path;
pub use speaker::Speaker;
pub use steps::Steps;
pub use tally::Tally;
pub use trial::Trial;
