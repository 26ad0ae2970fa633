//! Questions to the kernel about links, routes and neighbours (linux/rtnetlink.h).
//!
//! Deliberately absent: dumps, notifications and changes. One question has one answer.

mod message;
mod socket;

pub(crate) use message::{Malformed, Message, Request, address, integer};
pub(crate) use socket::{AskError, Netlink};

#[cfg(test)]
pub(crate) use message::tests::answer;
