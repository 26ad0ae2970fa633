//! The receiving end of a further link.

use crate::Moment;
use crate::connection::bulk::{BulkArrival, BulkRecord};
use crate::connection::{BulkOpened, Fail, Sink};
use crate::frame::{Decoded, decode};
use crate::keys::LinkSecret;
use crate::record::{Header, Opener, RecordError, RecordKind, Rekey, Unread};

/// Opens bytes of tensors and nothing else.
#[derive(Debug)]
pub struct LinkReceiver {
    opener: Opener,
    /// Bytes that come in the next records.
    bulk: Option<BulkArrival>,
    /// Whether a record opened: until one has, whoever greeted may not know the keys at all.
    is_proved: bool,
}

impl LinkReceiver {
    pub(super) fn new(secret: LinkSecret, rekey: Rekey, now: Moment) -> Self {
        let mut opener = Opener::resting(secret, now);
        opener.rotate(rekey);
        Self { opener, bulk: None, is_proved: false }
    }

    /// Whether nothing follows that was announced.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        self.bulk.is_none()
    }

    /// Whether the remote has shown that it has the link's keys: what breaks the link before is nobody's fault.
    #[must_use]
    pub const fn is_proved(&self) -> bool {
        self.is_proved
    }

    /// Takes bytes from the carrier and hands bulk records to `sink`; returns how many bytes it consumed. The rest is the
    /// beginning of a record.
    ///
    /// # Errors
    /// [`Fail`]: the link, and its connection with it, is over.
    pub fn handle_input(
        &mut self,
        now: Moment,
        input: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<usize, Fail> {
        let mut used = 0_usize;
        while let Some(rest) = input.get_mut(used..).filter(|rest| !rest.is_empty()) {
            let Some(consumed) = self.on_record(now, rest, sink)? else { break };
            used = used.saturating_add(consumed);
        }
        Ok(used)
    }

    fn on_record(
        &mut self,
        now: Moment,
        input: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<Option<usize>, Fail> {
        let Some((header, Unread::Sealed(body))) = Unread::Sealed(input).into_record()? else {
            return Ok(None);
        };
        let used = header.length.saturating_add(crate::limits::RECORD_HEADER_BYTES);
        match (self.bulk.take(), header.kind) {
            (Some(arrival), RecordKind::Bulk) => {
                let range = arrival.next(header)?;
                let BulkOpened { .. } =
                    sink.on_bulk(BulkRecord::new(range, &mut self.opener, header, body, now))?;
                self.bulk = arrival.advance(range);
            }
            (bulk, RecordKind::KeyUpdate) => {
                self.opener.open(header, body, now)?;
                self.bulk = bulk;
            }
            (None, RecordKind::Data) => self.bulk = Some(self.on_frame(header, body, now)?),
            _ => return Err(RecordError::Kind.into()),
        }
        self.is_proved = true;
        Ok(Some(used))
    }

    fn on_frame(&mut self, header: Header, body: &mut [u8], now: Moment) -> Result<BulkArrival, Fail> {
        let plaintext = self.opener.open(header, body, now)?;
        if plaintext.is_empty() {
            return Err(Fail::Order("a record holds no frame"));
        }
        match decode(plaintext)? {
            (Decoded::Bulk(range), []) => Ok(BulkArrival::new(range)),
            _ => Err(Fail::Order("a further link carries bytes of tensors and nothing else")),
        }
    }
}
