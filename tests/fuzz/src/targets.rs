//! The targets, and what each may cost.

pub(crate) mod bundle;
pub(crate) mod configuration;
mod control;
mod datagrams;
mod door;
mod evidence;
mod flights;
mod frames;
mod hello;
mod inbound;
pub(crate) mod join;
mod keyed;
pub(crate) mod nitro;
mod outbound;
pub(crate) mod packets;
mod pipes;
pub(crate) mod policy;
mod records;
pub(crate) mod tdx;

/// One function that takes hostile bytes.
pub struct Target {
    pub name: &'static str,
    /// Panics when an invariant does not hold.
    pub run: fn(&[u8]),
    /// Live heap that an input of `n` bytes may need at most: `per_byte · n + fixed`.
    pub memory: Memory,
    /// Mutations in the ordinary test.
    pub mutations: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub per_byte: u64,
    pub fixed: u64,
}

const fn memory(per_byte: u64, fixed: u64) -> Memory {
    Memory { per_byte, fixed }
}

/// Buffers of two connections and their flights.
const TWO_CONNECTIONS: u64 = 2 << 20;

/// Two connections, and everything that the remote may put behind a gap.
const WINDOW: u64 = TWO_CONNECTIONS + (17 << 20);

/// Every target. A connection costs what its keys cost, so targets with one try less.
pub const TARGETS: &[Target] = &[
    Target { name: "hello", run: hello::accepts, memory: memory(8, TWO_CONNECTIONS), mutations: 800 },
    Target { name: "reply", run: hello::dials, memory: memory(8, TWO_CONNECTIONS), mutations: 800 },
    Target { name: "join", run: join::run, memory: memory(8, TWO_CONNECTIONS), mutations: 20_000 },
    Target { name: "flights", run: flights::run, memory: memory(64, TWO_CONNECTIONS), mutations: 600 },
    Target { name: "keyed", run: keyed::run, memory: memory(16, TWO_CONNECTIONS), mutations: 600 },
    Target { name: "frames", run: frames::run, memory: memory(64, TWO_CONNECTIONS), mutations: 600 },
    Target { name: "records", run: records::run, memory: memory(64, TWO_CONNECTIONS), mutations: 600 },
    Target { name: "datagrams", run: datagrams::run, memory: memory(64, TWO_CONNECTIONS), mutations: 2_000 },
    Target { name: "packets", run: packets::run, memory: memory(64, WINDOW), mutations: 2_000 },
    Target { name: "inbound", run: inbound::run, memory: memory(512, 64 << 10), mutations: 20_000 },
    Target { name: "outbound", run: outbound::run, memory: memory(512, 64 << 10), mutations: 20_000 },
    Target { name: "pipes", run: pipes::run, memory: memory(1 << 10, 2 << 20), mutations: 8_000 },
    Target {
        name: "policy_document",
        run: policy::document,
        memory: memory(256, 64 << 10),
        mutations: 2_000,
    },
    Target { name: "policy_chain", run: policy::chain, memory: memory(256, 256 << 10), mutations: 600 },
    Target { name: "evidence", run: evidence::message, memory: memory(16, 64 << 10), mutations: 20_000 },
    Target { name: "report", run: evidence::report, memory: memory(64, 256 << 10), mutations: 800 },
    Target { name: "collateral", run: evidence::collateral, memory: memory(64, 256 << 10), mutations: 800 },
    Target { name: "nitro", run: nitro::document, memory: memory(64, 256 << 10), mutations: 1_500 },
    Target { name: "tdx", run: tdx::quote, memory: memory(64, 512 << 10), mutations: 1_500 },
    Target { name: "tdx_collateral", run: tdx::collateral, memory: memory(64, 512 << 10), mutations: 800 },
    Target { name: "bundle", run: bundle::run, memory: memory(64, 1 << 20), mutations: 800 },
    Target { name: "door", run: door::packet, memory: memory(64, 64 << 10), mutations: 20_000 },
    Target {
        name: "configuration",
        run: control::configuration,
        memory: memory(512, 64 << 10),
        mutations: 2_000,
    },
    Target {
        name: "registration",
        run: control::registration,
        memory: memory(128, 64 << 10),
        mutations: 2_000,
    },
    Target { name: "report_message", run: control::report, memory: memory(512, 64 << 10), mutations: 8_000 },
    Target {
        name: "environment",
        run: configuration::variables,
        memory: memory(128, 64 << 10),
        mutations: 2_000,
    },
    Target {
        name: "initdata",
        run: configuration::initdata,
        memory: memory(512, 16 << 20),
        mutations: 1_000,
    },
    Target { name: "file", run: configuration::yaml, memory: memory(512, 256 << 10), mutations: 1_000 },
];

/// The target of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
