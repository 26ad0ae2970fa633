//! A contender's accepting end on another machine: what one is asked for, how the end here finds it, and the program that
//! answers there.
//!
//! One TCP connection carries orders and answers, a line of JSON each; another one carries what is measured. Each begins with
//! three lines by which both sides prove to each other that they know the run's key, so that nobody else in a cluster can make
//! a server work, or pass for one. What follows is in the clear, as what is measured has to be.

mod client;
mod contender;
mod lines;
mod server;
mod token;

pub(crate) use client::{Remote, Server};
pub(crate) use contender::{Contender, ours};
pub(crate) use server::serve;
pub(crate) use token::Token;
