//! `PutTensor`, whose lists are kept to a length while they are decoded. Four million dimensions fit into one message,
//! each in a byte; decoded, each takes eight, and an empty replica, two bytes long, takes 32.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, bytes, int32, merge_loop, skip_field, string, uint64};
use prost::{DecodeError, Message};

/// Dimensions that decoding keeps: one more than a tensor may have, so that more can be refused.
pub const DIMENSIONS_KEPT: usize = 33;
/// Replicas that decoding keeps: one more than a tensor may have been assigned to.
pub const REPLICAS_KEPT: usize = 257;

/// A tensor, or its beginning. `door.proto` says what the fields mean.
///
/// Decoding drops what `shape` and `replicas` have beyond [`DIMENSIONS_KEPT`] and [`REPLICAS_KEPT`]; whoever decodes
/// refuses lists of that length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PutTensor {
    pub sequence: Option<u64>,
    pub dtype: i32,
    pub shape: Vec<u64>,
    pub name: String,
    pub data: Bytes,
    pub replicas: Vec<Bytes>,
}

impl PutTensor {
    fn merge_dimension(
        &mut self,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut dimension = 0;
        uint64::merge(wire_type, &mut dimension, buf, ctx)?;
        if self.shape.len() < DIMENSIONS_KEPT {
            self.shape.push(dimension);
        }
        Ok(())
    }
}

impl Message for PutTensor {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        if let Some(sequence) = &self.sequence {
            uint64::encode(1, sequence, buf);
        }
        if self.dtype != 0 {
            int32::encode(2, &self.dtype, buf);
        }
        uint64::encode_packed(3, &self.shape, buf);
        if !self.name.is_empty() {
            string::encode(4, &self.name, buf);
        }
        if !self.data.is_empty() {
            bytes::encode(5, &self.data, buf);
        }
        bytes::encode_repeated(6, &self.replicas, buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            1 => uint64::merge(wire_type, self.sequence.get_or_insert_default(), buf, ctx),
            2 => int32::merge(wire_type, &mut self.dtype, buf, ctx),
            3 if wire_type == WireType::LengthDelimited => merge_loop(self, buf, ctx, |tensor, buf, ctx| {
                tensor.merge_dimension(WireType::Varint, buf, ctx)
            }),
            3 => self.merge_dimension(wire_type, buf, ctx),
            4 => string::merge(wire_type, &mut self.name, buf, ctx),
            5 => bytes::merge(wire_type, &mut self.data, buf, ctx),
            6 if self.replicas.len() < REPLICAS_KEPT => {
                bytes::merge_repeated(wire_type, &mut self.replicas, buf, ctx)
            }
            _ => skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let Self { sequence, dtype, shape, name, data, replicas } = self;
        sequence.as_ref().map_or(0, |sequence| uint64::encoded_len(1, sequence))
            + if *dtype == 0 { 0 } else { int32::encoded_len(2, dtype) }
            + uint64::encoded_len_packed(3, shape)
            + if name.is_empty() { 0 } else { string::encoded_len(4, name) }
            + if data.is_empty() { 0 } else { bytes::encoded_len(5, data) }
            + bytes::encoded_len_repeated(6, replicas)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor() -> PutTensor {
        PutTensor {
            sequence: Some(0),
            dtype: 17,
            shape: vec![u64::MAX, 0, 300],
            name: "layer é".to_owned(),
            data: Bytes::from_static(b"bytes"),
            replicas: vec![Bytes::from_static(&[7; 16]), Bytes::new()],
        }
    }

    #[test]
    fn what_is_encoded_decodes() {
        for tensor in [PutTensor::default(), tensor()] {
            let encoded = tensor.encode_to_vec();
            assert_eq!(encoded.len(), tensor.encoded_len());
            assert_eq!(PutTensor::decode(&encoded[..]).ok(), Some(tensor));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol_file() {
        let expected = b"\x08\x00\x10\x11\x1a\x0d\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\xac\x02\
            \x22\x08layer \xc3\xa9\x2a\x05bytes\x32\x10\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x32\x00";
        assert_eq!(tensor().encode_to_vec(), expected);
        // Dimensions one by one, and a field from the future.
        let decoded = PutTensor::decode(&b"\x18\x02\x1a\x01\x03\x18\x04\x7a\x01\x00"[..]).ok();
        assert_eq!(decoded.map(|tensor| tensor.shape), Some(vec![2, 3, 4]));
    }

    #[test]
    fn lists_beyond_every_limit_take_no_memory() {
        let mut packed = b"\x1a\x80\x80\x40".to_vec();
        packed.resize(packed.len() + (1 << 20), 1);
        for (list, dimensions, replicas) in [
            (packed, DIMENSIONS_KEPT, 0),
            (b"\x18\x01".repeat(1 << 20), DIMENSIONS_KEPT, 0),
            (b"\x32\x00".repeat(1 << 20), 0, REPLICAS_KEPT),
        ] {
            let decoded = PutTensor::decode(&list[..]).unwrap_or_default();
            assert_eq!((decoded.shape.len(), decoded.replicas.len()), (dimensions, replicas));
            assert!(decoded.shape.capacity() <= 64 && decoded.replicas.capacity() <= 512);
        }
    }
}
