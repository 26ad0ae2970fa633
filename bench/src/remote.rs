//! A contender's accepting end on another machine: what one is asked for, how the end here finds it, and the program that
//! answers there.
//!
//! One TCP connection carries orders and answers, a line of JSON each; another one carries what is measured. Both begin with
//! a line that proves knowledge of the run's key, so that nobody else in a cluster can make a server work.

mod client;
mod contender;
mod lines;
mod server;
mod token;

pub(crate) use client::{Remote, Server};
pub(crate) use contender::{Contender, ours};
pub(crate) use server::serve;
pub(crate) use token::Token;
