//! The private buffer in which records are opened.

use crate::limits::{INPUT_BYTES_MIN, OUTPUT_BATCH_BYTES, RECORD_WIRE_BYTES_MAX};

/// Bytes from the carrier, contiguous, with room behind them. It grows with what arrives: a read that fills it doubles
/// it, up to a record while nobody is verified, and then to a batch, so that a batch is read by one system call and the
/// beginning of a record that is still incomplete moves rarely. An idle one holds no memory.
#[derive(Debug)]
pub struct InputBuffer {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    bytes_max: usize,
}

impl InputBuffer {
    /// Holds one record at most, until it is widened.
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, bytes_max: RECORD_WIRE_BYTES_MAX }
    }

    /// Lets it grow to a batch: the remote is verified.
    pub const fn widen(&mut self) {
        self.bytes_max = OUTPUT_BATCH_BYTES;
    }

    /// Gives its memory back, unless a record has begun to arrive.
    pub fn release(&mut self) {
        if self.start == self.end {
            *self = Self { bytes_max: self.bytes_max, ..Self::new() };
        }
    }

    /// Where the carrier reads into: never empty when everything that can be consumed was consumed.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() {
            self.make_room();
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// The carrier put `bytes` into [`Self::space`].
    pub fn filled(&mut self, bytes: usize) {
        self.end = self.end.saturating_add(bytes).min(self.buffer.len());
    }

    /// What has arrived and was not consumed, for
    /// [`Connection::handle_input`](crate::connection::Connection::handle_input).
    pub fn unread(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// The connection consumed `bytes` of [`Self::unread`].
    pub fn consumed(&mut self, bytes: usize) {
        self.start = self.start.saturating_add(bytes).min(self.end);
    }

    /// Moves the beginning of a record to the front, and doubles the buffer if the last read filled it.
    fn make_room(&mut self) {
        let grown = self.buffer.len().saturating_mul(2).clamp(INPUT_BYTES_MIN, self.bytes_max);
        if grown > self.buffer.len() {
            let mut buffer = vec![0; grown];
            let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(front) = buffer.get_mut(..unread.len()) {
                front.copy_from_slice(unread);
            }
            self.buffer = buffer;
        } else {
            self.buffer.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, self.end.saturating_sub(self.start));
    }
}

impl Default for InputBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills what there is room for, and says how much that was.
    fn read(input: &mut InputBuffer, byte: u8) -> usize {
        let space = input.space();
        space.fill(byte);
        let bytes = space.len();
        input.filled(bytes);
        bytes
    }

    #[test]
    fn it_grows_to_a_record_and_once_widened_to_a_batch() {
        let mut input = InputBuffer::new();
        assert_eq!(read(&mut input, 1), INPUT_BYTES_MIN);
        while read(&mut input, 2) > 0 {}
        assert_eq!(input.unread().len(), RECORD_WIRE_BYTES_MAX);
        assert_eq!(input.unread()[..=INPUT_BYTES_MIN], [&[1; INPUT_BYTES_MIN][..], &[2]].concat());
        input.widen();
        while read(&mut input, 3) > 0 {}
        assert_eq!(input.unread().len(), OUTPUT_BATCH_BYTES);
        assert_eq!(input.unread()[RECORD_WIRE_BYTES_MAX - 1..=RECORD_WIRE_BYTES_MAX], [2, 3]);
    }

    #[test]
    fn a_read_that_leaves_room_does_not_make_it_grow() {
        let mut input = InputBuffer::new();
        for _ in 0..100 {
            assert_eq!(input.space().len(), INPUT_BYTES_MIN);
            input.filled(INPUT_BYTES_MIN - 1);
            input.consumed(INPUT_BYTES_MIN - 1);
        }
    }

    #[test]
    fn the_beginning_of_a_record_moves_to_the_front() {
        let mut input = InputBuffer::new();
        while read(&mut input, 7) > 0 {}
        input.consumed(RECORD_WIRE_BYTES_MAX - 3);
        assert_eq!(input.space().len(), RECORD_WIRE_BYTES_MAX - 3);
        assert_eq!(input.unread(), [7; 3]);
    }

    #[test]
    fn it_gives_back_its_memory_but_no_byte_that_has_arrived() {
        let mut input = InputBuffer::new();
        input.widen();
        while read(&mut input, 7) > 0 {}
        input.consumed(OUTPUT_BATCH_BYTES - 1);
        input.release();
        assert_eq!(input.unread(), [7]);
        input.consumed(1);
        input.release();
        assert_eq!((input.buffer.capacity(), input.bytes_max), (0, OUTPUT_BATCH_BYTES));
        assert_eq!(input.space().len(), INPUT_BYTES_MIN);
    }

    #[test]
    fn what_is_counted_too_often_ends_at_what_is_there() {
        let mut input = InputBuffer::new();
        input.filled(5);
        assert_eq!(input.unread().len(), 0);
        input.space();
        input.filled(usize::MAX);
        input.consumed(usize::MAX);
        assert_eq!((input.start, input.end), (INPUT_BYTES_MIN, INPUT_BYTES_MIN));
    }
}
