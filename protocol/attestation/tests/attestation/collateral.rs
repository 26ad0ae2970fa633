//! Collateral piece by piece: who may vouch for it, which of two is kept, how it travels, and what it changes.

mod bounds;
mod bundle;
mod forms;
mod grace;
mod record;
mod rejudged;
mod rules;
mod stock;
mod support;
mod uncovered;
