//! Rings with one producer and one consumer in memory that both share (Documentation/networking/af_xdp.rst).
//!
//! Invariant: an item is written before the producer's index passes it and read before the consumer's index does, in the
//! order that both sides see. Each side keeps its own index to itself and believes nothing about the other's: whatever
//! stands in shared memory, no more items are taken or free than the ring has slots.
//!
//! Both sides are generic over the memory and its atomics: the same code runs over memory of the kernel, over ordinary
//! memory under Miri, and over loom's atomics, which only the test in `model` names.

mod consumer;
mod mapped;
// Miri knows nothing of the stacks that loom switches between.
#[cfg(test)]
#[cfg(not(miri))]
mod model;
mod producer;
mod shared;

pub(crate) use consumer::Consumer;
pub(crate) use mapped::{Mapped, Offsets};
pub(crate) use producer::Producer;

#[cfg(test)]
pub(crate) use mapped::tests::pair;
