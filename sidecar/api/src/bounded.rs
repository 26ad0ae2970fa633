//! Messages whose lists are counted before anything is decoded. A megabyte holds half a million empty session reports, two
//! bytes each; decoded, each takes 300.

use std::marker::PhantomData;

use prost::bytes::Buf as _;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// A field whose occurrences take memory each: a message, or a repeated string or bytes.
#[derive(Debug)]
pub struct Field {
    pub number: u32,
    pub name: &'static str,
    /// Occurrences in one outermost message, wherever in it.
    pub max: usize,
    /// Of the message that it is.
    pub fields: &'static [Self],
}

impl Field {
    /// A repeated string, or a message without any.
    pub(crate) const fn leaf(number: u32, name: &'static str, max: usize) -> Self {
        Self { number, name, max, fields: &[] }
    }

    pub(crate) const fn message(
        number: u32,
        name: &'static str,
        max: usize,
        fields: &'static [Self],
    ) -> Self {
        Self { number, name, max, fields }
    }
}

/// A message with bounds. They limit memory and are above what the receiver accepts, which tells better what is wrong.
pub trait Bounded: Message + Default + 'static {
    const FIELDS: &'static [Field];
}

/// Why a message is not decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundedError {
    #[error("more than {max} {name} in one message")]
    TooMany { name: &'static str, max: usize },
    #[error("a field ends beyond its message")]
    Truncated,
    #[error(transparent)]
    Malformed(#[from] DecodeError),
}

/// Counts what decoding `message` would allocate.
///
/// # Errors
/// [`BoundedError`] of the first field that occurs too often, or of what is no message.
pub fn check<M: Bounded>(message: &[u8]) -> Result<(), BoundedError> {
    count(M::FIELDS, &[message])
}

/// In `messages`, which are of one type.
fn count(fields: &'static [Field], messages: &[&[u8]]) -> Result<(), BoundedError> {
    for Field { number, name, max, fields } in fields {
        let (mut found, mut nested) = (0, Vec::new());
        for message in messages {
            occurrences(message, *number, |body| {
                if found == *max {
                    return Err(BoundedError::TooMany { name, max: *max });
                }
                found += 1;
                if !fields.is_empty() {
                    nested.push(body);
                }
                Ok(())
            })?;
        }
        count(fields, &nested)?;
    }
    Ok(())
}

/// Hands each occurrence of field `number` to `each`.
fn occurrences<'a>(
    mut message: &'a [u8],
    number: u32,
    mut each: impl FnMut(&'a [u8]) -> Result<(), BoundedError>,
) -> Result<(), BoundedError> {
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message)?;
        if (tag, wire_type) != (number, WireType::LengthDelimited) {
            skip_field(wire_type, tag, &mut message, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut message)?).map_err(|_| BoundedError::Truncated)?;
        let (body, rest) = message.split_at_checked(length).ok_or(BoundedError::Truncated)?;
        each(body)?;
        message = rest;
    }
    Ok(())
}

/// tonic's codec for messages of which the received ones are [`Bounded`].
#[derive(Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Message + Send + 'static, U: Bounded + Send> Codec for BoundedCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstDecoder::default())
    }
}

/// See [`BoundedCodec`].
#[derive(Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Bounded> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // tonic hands over a message in one piece.
        let message = buffer.chunk();
        if message.len() != buffer.remaining() {
            return Err(Status::internal("a message in pieces"));
        }
        check::<U>(message).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
