//! Two Python processes that are connected, by a lane or by TCP, and what they are told to do.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::bench::Programs;
use crate::programs::{Route, Script, Sidecars, Task};
use crate::world::Session;

/// Messages of a first, thorough burst.
const THOROUGH: u64 = 8;

/// See the module's documentation.
pub(crate) struct Ends<'a> {
    /// The one that puts or asks.
    first: RefCell<Script>,
    second: RefCell<Script>,
    /// What lies between them, if not the network alone.
    sidecars: Option<&'a Sidecars>,
}

/// How a task went.
pub(crate) struct Done {
    /// From the first put until the last message was taken.
    pub(crate) seconds: f64,
    /// That all processes used of all cores.
    pub(crate) processor_seconds: f64,
    /// Microseconds, for tasks that measure single messages.
    pub(crate) latencies: Vec<f64>,
    pub(crate) wrong: Option<String>,
}

impl<'a> Ends<'a> {
    /// One puts tensors, the other takes them.
    pub(crate) fn lane(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        let session = Session::Measured.name();
        Self::through(programs, route, sidecars, ["lane-put", "lane-take"], &[session])
    }

    /// One puts a tensor and takes the answer, again and again.
    pub(crate) fn asking_lane(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        let sessions = [Session::Asked.name(), Session::Answered.name()];
        Self::through(programs, route, sidecars, ["lane-ask", "lane-echo"], &sessions)
    }

    /// One opens a lane for every tensor, the other takes them all.
    pub(crate) fn streams(programs: &Programs, route: &Route, sidecars: &'a Sidecars) -> Result<Self> {
        let session = Session::Measured.name();
        Self::through(programs, route, sidecars, ["lane-streams", "lane-take"], &[session])
    }

    fn through(
        programs: &Programs,
        route: &Route,
        sidecars: &'a Sidecars,
        [first, second]: [&str; 2],
        sessions: &[&str],
    ) -> Result<Self> {
        let [from, to] = &route.hosts;
        let start = |host, role, door: &Path| {
            let door = door.to_string_lossy();
            Script::start(programs, host, &[&[role, &*door], sessions].concat())
        };
        let mut second = start(to, second, &sidecars.receiver.door)?;
        let mut first = start(from, first, &sidecars.sender.door)?;
        second.ready()?;
        first.ready()?;
        Ok(Self { first: first.into(), second: second.into(), sidecars: Some(sidecars) })
    }

    /// The same over a plain TCP connection.
    pub(crate) fn plain(programs: &Programs, route: &Route) -> Result<Self> {
        Self::over_tcp(programs, route, ["plain-put", "plain-take"])
    }

    /// See [`Self::plain`].
    pub(crate) fn asking_plain(programs: &Programs, route: &Route) -> Result<Self> {
        Self::over_tcp(programs, route, ["plain-ask", "plain-echo"])
    }

    fn over_tcp(programs: &Programs, route: &Route, [first, second]: [&str; 2]) -> Result<Self> {
        let [from, to] = &route.hosts;
        let host = to.address.to_string();
        let mut second = Script::start(programs, to, &[second, &host])?;
        let port = second.ready()?;
        let mut first = Script::start(programs, from, &[first, &host, &port])?;
        first.ready()?;
        Ok(Self { first: first.into(), second: second.into(), sidecars: None })
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
        let sidecars = self.sidecars.map_or(Ok(0.0), Sidecars::processor_seconds)?;
        let [first, second] = [&self.first, &self.second].map(|end| end.borrow().processor_seconds());
        Ok(sidecars + first? + second?)
    }
}
