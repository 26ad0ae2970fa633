//! x
#![allow(dead_code)]
mod limits; mod memory; mod ring; mod sys;
