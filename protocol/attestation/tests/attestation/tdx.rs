//! TDX: real quotes, and simulated ones that are honest but for the one thing a test spoils.

mod chain;
mod collateral;
mod judged;
mod levels;
mod mutated;
mod quote;
mod report;
mod stored;
mod support;
