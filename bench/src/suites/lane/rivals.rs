//! What a user could take in place of a lane, one file of Python each ([`Script`](crate::programs::Script)'s sources) or a pair of
//! programs around a plain connection.

use anyhow::{Context as _, Result};

use crate::bench::Programs;
use crate::ends::Ends;
use crate::programs::{Material, Relay, Route, command};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rival {
    Tcp,
    Ssl,
    Curve,
    GrpcTls,
    FlightTls,
    Haproxy,
    Stunnel,
}

impl Rival {
    pub(super) const ALL: [Self; 7] =
        [Self::Tcp, Self::Ssl, Self::Curve, Self::GrpcTls, Self::FlightTls, Self::Haproxy, Self::Stunnel];
    /// What a Python program can take that shall not send in the clear.
    pub(super) const SEALED_PYTHON: [Self; 4] = [Self::Ssl, Self::Curve, Self::GrpcTls, Self::FlightTls];

    /// What a row's id carries.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Ssl => "ssl",
            Self::Curve => "curve",
            Self::GrpcTls => "grpc-tls",
            Self::FlightTls => "flight-tls",
            Self::Haproxy => "haproxy",
            Self::Stunnel => "stunnel",
        }
    }

    /// What people read.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Tcp => "Python sendall(memoryview) and recv_into",
            Self::Ssl => "Python ssl, TLS 1.3 with certificates of both sides, sendall and recv_into",
            Self::Curve => "ZeroMQ with CURVE (XSalsa20-Poly1305), PUSH and PULL, without copies in Python",
            Self::GrpcTls => "gRPC, a streaming call over TLS with certificates of both sides",
            Self::FlightTls => "Arrow Flight, an upload over TLS with certificates of both sides",
            Self::Haproxy => "plain TCP through two haproxy with mTLS, one thread each, buffers of 256 KiB",
            Self::Stunnel => "plain TCP through two stunnel with mTLS",
        }
    }

    /// The module of a Python library that it needs, and how that is installed.
    const fn library(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Curve => Some(("zmq", "pyzmq")),
            Self::GrpcTls => Some(("grpc", "grpcio")),
            Self::FlightTls => Some(("pyarrow.flight", "pyarrow")),
            Self::Tcp | Self::Ssl | Self::Haproxy | Self::Stunnel => None,
        }
    }

    const fn relay(self) -> Option<Relay> {
        match self {
            Self::Haproxy => Some(Relay::Haproxy),
            Self::Stunnel => Some(Relay::Stunnel),
            _ => None,
        }
    }

    /// Why it cannot be measured on this machine, if so.
    pub(super) fn lacks(self, programs: &Programs) -> Option<String> {
        if let Some((module, package)) = self.library()
            && let Some(why) = lacks_library(programs, module, package)
        {
            return Some(why);
        }
        self.relay()?.version().err().map(|why| format!("{why:#}"))
    }

    pub(super) fn start(
        self,
        programs: &Programs,
        route: &Route,
        material: &Material,
    ) -> Result<Ends<'static>> {
        let ends = match self {
            Self::Tcp => Ends::plain(programs, route),
            Self::Ssl => Ends::sealed(programs, route, "tls", material),
            Self::Curve => Ends::sealed(programs, route, "curve", material),
            Self::GrpcTls => Ends::sealed(programs, route, "grpc_tls", material),
            Self::FlightTls => Ends::sealed(programs, route, "flight_tls", material),
            Self::Haproxy => Ends::relayed(programs, route, Relay::Haproxy, material),
            Self::Stunnel => Ends::relayed(programs, route, Relay::Stunnel, material),
        };
        ends.with_context(|| format!("the peer {}", self.word()))
    }
}

/// Why `module` cannot be imported, if so.
pub(super) fn lacks_library(programs: &Programs, module: &str, package: &str) -> Option<String> {
    let import = format!("import {module}");
    let found =
        command(&programs.python).args(["-c", &import]).output().is_ok_and(|asked| asked.status.success());
    (!found).then(|| {
        let python = programs.python.display();
        format!(
            "{python} has no {package}: `make bench` installs it, or name another interpreter with --python"
        )
    })
}
