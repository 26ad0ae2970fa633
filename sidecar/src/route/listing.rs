//! The sessions as clients of this pod may see them.

use super::Router;
use super::side::Side;
use crate::desired::{Kind, Session, SessionKey};
use crate::handoff::{LaneError, SessionKind, SessionView, Sessions};
use crate::session::readiness::Readiness;

impl Sessions for Router {
    fn list(&self) -> Vec<SessionView> {
        // Copied first: readiness asks for locks of its own.
        let (running, suspended) = self.declared();
        let mut views: Vec<_> = running.into_iter().map(|(key, side)| view(key, &side)).collect();
        views.extend(suspended.into_iter().map(|(key, kind)| {
            let standing = self.stream(&key).err().and_then(Readiness::error).map_or(Ok(()), Err);
            SessionView { name: key.name, direction: key.direction, kind, standing }
        }));
        views.sort_by(|one, other| (&one.name, one.direction).cmp(&(&other.name, other.direction)));
        views
    }
}

/// What a session carries.
pub(super) const fn kind(session: &Session) -> SessionKind {
    match session.kind {
        Kind::Stream { .. } => SessionKind::Stream,
        Kind::Forward(_) => SessionKind::Forward,
    }
}

fn view(key: SessionKey, side: &Side) -> SessionView {
    let SessionKey { name, direction } = key;
    let (kind, standing) = match side.stream() {
        Ok(stream) => (SessionKind::Stream, stream.readiness().error()),
        Err(_) => {
            let problem = side.observe().problem;
            (SessionKind::Forward, problem.map(|(reason, message)| LaneError::not_ready(reason, message)))
        }
    };
    SessionView { name, direction, kind, standing: standing.map_or(Ok(()), Err) }
}
