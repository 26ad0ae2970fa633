//! Two Python processes that are connected, by a lane or by what a user could take in its place, and what they are told to do.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::bench::Programs;
use crate::programs::{Material, Relay, Route, Script, Sidecars, Task, TlsRelays};
use crate::world::Session;

/// Messages of a first, thorough burst.
const THOROUGH: u64 = 8;
const LOCALHOST: &str = "127.0.0.1";

/// See the module's documentation.
pub(crate) struct Ends<'a> {
    /// The one that puts or asks.
    first: RefCell<Script>,
    second: RefCell<Script>,
    between: Between<'a>,
    /// What the first one says of itself: versions, the cipher.
    pub(crate) words: String,
}

/// What lies between the two.
enum Between<'a> {
    /// The network alone.
    Nothing,
    Sidecars(&'a Sidecars),
    Relays(TlsRelays),
}

/// How a task went.
pub(crate) struct Done {
    /// From the first put until the last message was taken.
    pub(crate) seconds: f64,
    /// That all processes used of all cores.
    pub(crate) processor_seconds: f64,
    /// Microseconds, for tasks that measure single messages.
    pub(crate) latencies: Vec<f64>,
    /// Percent of each request that was no inference, for tasks that run a model.
    pub(crate) shares: Vec<f64>,
    pub(crate) wrong: Option<String>,
}

impl<'a> Ends<'a> {
    /// One puts tensors, the other takes them.
    pub(crate) fn lane(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        Self::through(programs, route, sidecars, ("lane", ["put", "take"]), &[Session::Measured])
    }

    /// One puts what lies in the lane's memory already, in a session of its own.
    pub(crate) fn in_place(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        Self::through(programs, route, sidecars, ("lane", ["empty", "take"]), &[Session::InPlace])
    }

    /// One puts a tensor and takes the answer, again and again.
    pub(crate) fn asking_lane(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        let sessions = [Session::Asked, Session::Answered];
        Self::through(programs, route, sidecars, ("lane", ["ask", "echo"]), &sessions)
    }

    /// One opens a lane for every tensor, the other takes them all.
    pub(crate) fn streams(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        Self::through(programs, route, sidecars, ("lane", ["streams", "take"]), &[Session::Measured])
    }

    fn through(
        programs: &Programs,
        route: &Route,
        sidecars: &'a Sidecars,
        (module, [first, second]): (&str, [&str; 2]),
        sessions: &[Session],
    ) -> Result<Self> {
        let [from, to] = &route.hosts;
        let names: Vec<_> = sessions.iter().map(|session| session.name()).collect();
        let start = |host, role, door: &Path| {
            let door = door.to_string_lossy();
            Script::start(programs, host, &[&[module, role, &*door], &names[..]].concat())
        };
        let mut second = start(to, second, &sidecars.receiver.door)?;
        let mut first = start(from, first, &sidecars.sender.door)?;
        second.ready()?;
        let words = first.ready()?;
        Ok(Self { first: first.into(), second: second.into(), between: Between::Sidecars(sidecars), words })
    }

    /// The same over a plain TCP connection.
    pub(crate) fn plain(programs: &Programs, route: &Route) -> Result<Self> {
        Self::over_tcp(programs, route, ("tcp", ["put", "take"]), &[])
    }

    /// See [`Self::plain`].
    pub(crate) fn asking_plain(programs: &Programs, route: &Route) -> Result<Self> {
        Self::over_tcp(programs, route, ("tcp", ["ask", "echo"]), &[])
    }

    /// One runs the first half of a model, the other the rest.
    pub(crate) fn inferring_lane(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        let sessions = [Session::Asked, Session::Answered];
        Self::through(programs, route, sidecars, ("minilm", ["lane_ask", "lane_answer"]), &sessions)
    }

    /// See [`Self::inferring_lane`].
    pub(crate) fn inferring_plain(programs: &Programs, route: &Route) -> Result<Self> {
        Self::over_tcp(programs, route, ("minilm", ["tcp_ask", "tcp_answer"]), &[])
    }

    /// Over a connection that a Python library seals.
    pub(crate) fn sealed(
        programs: &Programs,
        route: &Route,
        module: &str,
        material: &Material,
    ) -> Result<Self> {
        let folder = material.path().to_string_lossy();
        Self::over_tcp(programs, route, (module, ["put", "take"]), &[&*folder])
    }

    fn over_tcp(
        programs: &Programs,
        route: &Route,
        (module, [first, second]): (&str, [&str; 2]),
        more: &[&str],
    ) -> Result<Self> {
        let [from, to] = &route.hosts;
        let host = to.address.to_string();
        let mut second = Script::start(programs, to, &[&[module, second, &host], more].concat())?;
        let port = second.ready()?;
        let mut first = Script::start(programs, from, &[&[module, first, &host, &port], more].concat())?;
        let words = first.ready()?;
        Ok(Self { first: first.into(), second: second.into(), between: Between::Nothing, words })
    }

    /// Over a plain connection that two programs seal on its way.
    pub(crate) fn relayed(
        programs: &Programs,
        route: &Route,
        relay: Relay,
        material: &Material,
    ) -> Result<Self> {
        let [from, to] = &route.hosts;
        let mut second = Script::start(programs, to, &["tcp", "take", LOCALHOST])?;
        let relays = TlsRelays::start(relay, route, material, second.ready()?.parse()?)?;
        let port = relays.near.port().to_string();
        let mut first = Script::start(programs, from, &["tcp", "put", LOCALHOST, &port])?;
        first.ready()?;
        let (between, words) = (Between::Relays(relays), relay.version()?);
        Ok(Self { first: first.into(), second: second.into(), between, words })
    }

    /// Lets both do their part of `task`.
    pub(crate) fn follow(&self, task: Task) -> Result<Done> {
        let before = self.processor_seconds()?;
        self.second.borrow_mut().order(task)?;
        self.first.borrow_mut().order(task)?;
        let (first, second) = (self.first.borrow_mut().told()?, self.second.borrow_mut().told()?);
        let took = Duration::from_nanos(second.ended.max(first.ended).saturating_sub(first.began));
        let latencies = if first.latencies.is_empty() { second.latencies } else { first.latencies };
        Ok(Done {
            seconds: took.as_secs_f64(),
            processor_seconds: self.processor_seconds()? - before,
            latencies,
            shares: first.shares,
            wrong: first.wrong.or(second.wrong),
        })
    }

    /// A first burst, of which every byte is compared: what it shows.
    pub(crate) fn thorough(&self, bytes: usize) -> Result<Option<String>> {
        Ok(self.follow(Task { bytes, count: THOROUGH, thorough: true, ..Task::default() })?.wrong)
    }

    /// How many times `task` has to be done to last about `target`.
    pub(crate) fn times(&self, task: Task, target: Duration) -> Result<f64> {
        Ok((target.as_secs_f64() / self.follow(task)?.seconds.max(1e-6)).max(1.0))
    }

    fn processor_seconds(&self) -> Result<f64> {
        let between = match &self.between {
            Between::Nothing => 0.0,
            Between::Sidecars(sidecars) => sidecars.processor_seconds()?,
            Between::Relays(relays) => relays.processor_seconds()?,
        };
        let [first, second] = [&self.first, &self.second].map(|end| end.borrow().processor_seconds());
        Ok(between + first? + second?)
    }
}
