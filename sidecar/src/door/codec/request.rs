//! What a client says.

use std::time::Duration;

use super::super::fault::Fault;
use super::super::limits;
use super::cursor::Cursor;
use super::{MAGIC, VERSION};
use crate::handoff::{DIMENSIONS_MAX, LaneIncarnation, ReplicaId, Sequence};

/// A message from a client. Lengths and counts are within limits; meaning is checked where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Hello {
        name: String,
    },
    Want {
        lane: u32,
        bytes: u64,
    },
    OpenSender {
        lane: u32,
        session: String,
        incarnation: LaneIncarnation,
        base: Sequence,
        timeout: Duration,
        resume: bool,
    },
    OpenReceiver {
        lane: u32,
        session: String,
        timeout: Duration,
    },
    Put {
        lane: u32,
        entries: Vec<PutEntry>,
    },
    Close {
        lane: u32,
        abandon: bool,
    },
    Took {
        lane: u32,
        deliveries: Vec<u64>,
        /// The application has a part of each, as of a run, and will not take the rest.
        partly: bool,
    },
    Release {
        lane: u32,
        deliveries: Vec<u64>,
        /// The application took them as well, which nothing said before.
        taken: bool,
    },
    Drop {
        segment: u32,
    },
}

/// One tensor of a `PUT`, unchecked against segment and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutEntry {
    pub sequence: u64,
    pub offset: u64,
    pub length: u64,
    pub segment: u32,
    pub dtype: u8,
    pub shape: Vec<u64>,
    pub run: bool,
    pub name: String,
    pub assigned: Vec<ReplicaId>,
}

const PUT_ENTRY_BYTES: usize = 36;

struct Header {
    kind: u8,
    flags: u8,
    count: usize,
    lane: u32,
}

impl Header {
    /// The flags, when the kind knows all that are set and counts no entries.
    fn plain(&self, known: u8) -> Result<u8, Fault> {
        if self.count != 0 {
            return Err(Fault::NotZero);
        }
        self.listed(known)
    }

    fn listed(&self, known: u8) -> Result<u8, Fault> {
        if self.flags & !known != 0 {
            return Err(Fault::UnknownFlags { kind: self.kind, flags: self.flags });
        }
        Ok(self.flags)
    }
}

impl Request {
    /// Parses one packet.
    ///
    /// # Errors
    /// [`Fault`] says which rule of `DOOR.md` it breaks.
    pub fn parse(packet: &[u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(packet);
        let header = Header {
            kind: cursor.u8()?,
            flags: cursor.u8()?,
            count: usize::from(cursor.u16()?),
            lane: cursor.u32()?,
        };
        let request = parse_body(&header, &mut cursor)?;
        cursor.finish()?;
        Ok(request)
    }
}

fn parse_body(header: &Header, cursor: &mut Cursor<'_>) -> Result<Request, Fault> {
    let lane = header.lane;
    match header.kind {
        1 => {
            header.plain(0)?;
            hello(cursor)
        }
        2 => {
            header.plain(0)?;
            Ok(Request::Want { lane, bytes: cursor.u64()? })
        }
        3 => open(lane, header.plain(3)?, cursor),
        4 => {
            header.listed(0)?;
            let entries = cursor.items(header.count, PUT_ENTRY_BYTES, put_entry)?;
            Ok(Request::Put { lane, entries })
        }
        5 => Ok(Request::Close { lane, abandon: header.plain(1)? != 0 }),
        6 => {
            let partly = header.listed(1)? != 0;
            Ok(Request::Took { lane, deliveries: cursor.items(header.count, 8, Cursor::u64)?, partly })
        }
        7 => {
            let taken = header.listed(1)? != 0;
            Ok(Request::Release { lane, deliveries: cursor.items(header.count, 8, Cursor::u64)?, taken })
        }
        8 => {
            header.plain(0)?;
            Ok(Request::Drop { segment: cursor.u32()? })
        }
        kind => Err(Fault::UnknownKind(kind)),
    }
}

fn hello(cursor: &mut Cursor<'_>) -> Result<Request, Fault> {
    if cursor.array()? != MAGIC {
        return Err(Fault::WrongMagic);
    }
    let (oldest, newest) = (cursor.u16()?, cursor.u16()?);
    if !(oldest..=newest).contains(&VERSION) {
        return Err(Fault::VersionUnsupported { ours: VERSION, oldest, newest });
    }
    let length = usize::from(cursor.u8()?);
    if length > limits::CLIENT_NAME_BYTES_MAX {
        return Err(Fault::TooMany { what: "bytes in its name", max: limits::CLIENT_NAME_BYTES_MAX });
    }
    Ok(Request::Hello { name: cursor.text(length)?.to_owned() })
}

fn open(lane: u32, flags: u8, cursor: &mut Cursor<'_>) -> Result<Request, Fault> {
    let incarnation = LaneIncarnation(cursor.array()?);
    let base = Sequence(cursor.u64()?);
    let timeout = Duration::from_millis(u64::from(cursor.u32()?)).min(limits::OPEN_WAIT_MAX);
    let length = usize::from(cursor.u8()?);
    let session = cursor.text(length)?.to_owned();
    if flags & 1 == 0 {
        return Ok(Request::OpenSender { lane, session, incarnation, base, timeout, resume: flags & 2 != 0 });
    }
    if incarnation.0 != [0; 16] || base.0 != 0 {
        return Err(Fault::NotZero);
    }
    Ok(Request::OpenReceiver { lane, session, timeout })
}

fn put_entry(cursor: &mut Cursor<'_>) -> Result<PutEntry, Fault> {
    let (sequence, offset, length) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let segment = cursor.u32()?;
    let (dtype, rank, name, run) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let (replicas, padding) = (usize::from(cursor.u16()?), cursor.u16()?);
    if run > 1 || padding != 0 {
        return Err(Fault::NotZero);
    }
    let run = run == 1;
    let rank = usize::from(rank);
    if rank > DIMENSIONS_MAX {
        return Err(Fault::Rank { actual: rank, max: DIMENSIONS_MAX });
    }
    if replicas > limits::REPLICAS_MAX {
        return Err(Fault::TooMany { what: "replicas of one tensor", max: limits::REPLICAS_MAX });
    }
    let shape = cursor.items(rank, 8, Cursor::u64)?;
    let name = cursor.text(usize::from(name))?.to_owned();
    let assigned = cursor.items(replicas, 16, |cursor| cursor.array().map(ReplicaId))?;
    Ok(PutEntry { sequence, offset, length, segment, dtype, shape, run, name, assigned })
}
