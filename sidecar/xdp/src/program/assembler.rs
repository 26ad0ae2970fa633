//! A small assembler for eBPF (RFC 9669): the instructions that steering takes, and jumps forward to labels.

use crate::sys::bpf::Instruction;

/// One of the registers R0 to R9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
}

/// A place that jumps lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// How many bytes a load takes. The value is the size field of the opcode (RFC 9669 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// Ours: a program that cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AssembleError {
    #[error("a jump leads to a label that was never placed")]
    Label,
    #[error("a jump leads too far")]
    Distance,
}

// Opcodes: class, source bit and operation (RFC 9669 section 3).
const MOVE_REGISTER: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD_IMMEDIATE: u8 = 0x07;
const AND_IMMEDIATE: u8 = 0x57;
const FROM_NETWORK: u8 = 0xdc;
const LOAD_CLASS: u8 = 0x61;
const LOAD_WIDE: u8 = 0x18;
const JUMP: u8 = 0x05;
const JUMP_IF_GREATER_REGISTER: u8 = 0x2d;
/// Of the class of 32 bits, whose immediate is not extended by its sign: addresses have their highest bit set too.
const JUMP_IF_EQUAL: u8 = 0x16;
const JUMP_IF_NOT_EQUAL: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// `BPF_PSEUDO_MAP_FD`: the immediate of a wide load is a map's descriptor.
const PSEUDO_MAP: u8 = 1;

/// Instructions in order, and the jumps among them that still lack their distance.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label that is yet to be placed.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(self.code.len());
        }
    }

    pub(crate) fn move_register(&mut self, into: Register, from: Register) {
        self.emit(MOVE_REGISTER, into as u8, from as u8, 0, 0);
    }

    pub(crate) fn move_immediate(&mut self, into: Register, value: i32) {
        self.emit(MOVE_IMMEDIATE, into as u8, 0, 0, value);
    }

    pub(crate) fn add(&mut self, to: Register, value: i32) {
        self.emit(ADD_IMMEDIATE, to as u8, 0, 0, value);
    }

    pub(crate) fn and(&mut self, with: Register, value: i32) {
        self.emit(AND_IMMEDIATE, with as u8, 0, 0, value);
    }

    /// Loads from `offset` bytes behind a pointer. The bytes stay in the order of memory.
    /// Two bytes in the order of the network become a number.
    pub(crate) fn order_half(&mut self, register: Register) {
        self.emit(FROM_NETWORK, register as u8, 0, 0, 16);
    }

    pub(crate) fn load(&mut self, size: Size, into: Register, from: Register, offset: i16) {
        self.emit(LOAD_CLASS | size as u8, into as u8, from as u8, offset, 0);
    }

    pub(crate) fn load_map(&mut self, into: Register, descriptor: i32) {
        self.emit(LOAD_WIDE, into as u8, PSEUDO_MAP, 0, descriptor);
        self.emit(0, 0, 0, 0, 0);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.jump_with(JUMP, 0, 0, 0, to);
    }

    pub(crate) fn jump_if_greater(&mut self, left: Register, right: Register, to: Label) {
        self.jump_with(JUMP_IF_GREATER_REGISTER, left as u8, right as u8, 0, to);
    }

    /// Compares the lower 32 bits.
    pub(crate) fn jump_if_equal(&mut self, left: Register, right: u32, to: Label) {
        self.jump_with(JUMP_IF_EQUAL, left as u8, 0, right.cast_signed(), to);
    }

    /// Compares the lower 32 bits.
    pub(crate) fn jump_if_not_equal(&mut self, left: Register, right: u32, to: Label) {
        self.jump_with(JUMP_IF_NOT_EQUAL, left as u8, 0, right.cast_signed(), to);
    }

    pub(crate) fn call(&mut self, helper: i32) {
        self.emit(CALL, 0, 0, 0, helper);
    }

    pub(crate) fn exit(&mut self) {
        self.emit(EXIT, 0, 0, 0, 0);
    }

    /// Fills in the distances of all jumps.
    pub(crate) fn finish(mut self) -> Result<Vec<Instruction>, AssembleError> {
        for (at, label) in &self.jumps {
            let target = self.labels.get(label.0).copied().flatten().ok_or(AssembleError::Label)?;
            // Counted from the instruction after the jump.
            let distance = target.checked_sub(at + 1).ok_or(AssembleError::Distance)?;
            let distance = i16::try_from(distance).map_err(|_| AssembleError::Distance)?;
            self.code[*at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        Ok(self.code)
    }

    fn jump_with(&mut self, code: u8, left: u8, right: u8, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(code, left, right, 0, immediate);
    }

    /// `struct bpf_insn`: its registers share a byte in the order of the machine's bit fields.
    fn emit(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        let registers = if cfg!(target_endian = "little") {
            destination | source << 4
        } else {
            destination << 4 | source
        };
        let [offset_0, offset_1] = offset.to_ne_bytes();
        let [a, b, c, d] = immediate.to_ne_bytes();
        self.code.push([code, registers, offset_0, offset_1, a, b, c, d]);
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_the_tables_of_the_rfc_say() {
        let mut assembler = Assembler::default();
        let end = assembler.label();
        assembler.move_register(Register::R6, Register::R1);
        assembler.load(Size::Word, Register::R2, Register::R1, 4);
        assembler.load(Size::Half, Register::R5, Register::R2, 12);
        assembler.load(Size::Byte, Register::R5, Register::R2, -2);
        assembler.and(Register::R5, 0xff3f);
        assembler.add(Register::R4, 42);
        assembler.jump_if_greater(Register::R4, Register::R3, end);
        assembler.jump_if_equal(Register::R5, 0xc800_000a, end);
        assembler.jump_if_not_equal(Register::R5, 17, end);
        assembler.jump(end);
        assembler.load_map(Register::R1, 7);
        assembler.call(51);
        assembler.place(end);
        assembler.move_immediate(Register::R0, 2);
        assembler.exit();
        let expected: [u64; 15] = [
            0x0000_0000_0000_16bf,
            0x0000_0000_0004_1261,
            0x0000_0000_000c_2569,
            0x0000_0000_fffe_2571,
            0x0000_ff3f_0000_0557,
            0x0000_002a_0000_0407,
            0x0000_0000_0006_342d,
            0xc800_000a_0005_0516,
            0x0000_0011_0004_0556,
            0x0000_0000_0003_0005,
            0x0000_0007_0000_1118,
            0x0000_0000_0000_0000,
            0x0000_0033_0000_0085,
            0x0000_0002_0000_00b7,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(assembler.finish().unwrap(), expected.map(u64::to_le_bytes));
    }

    #[test]
    fn jumps_that_lead_nowhere_are_refused() {
        let mut assembler = Assembler::default();
        let label = assembler.label();
        assembler.jump(label);
        assert_eq!(assembler.finish(), Err(AssembleError::Label));
        let mut assembler = Assembler::default();
        let label = assembler.label();
        assembler.place(label);
        assembler.jump(label);
        assert_eq!(assembler.finish(), Err(AssembleError::Distance), "backward");
        let mut assembler = Assembler::default();
        let label = assembler.label();
        assembler.jump(label);
        for _ in 0..=i16::MAX {
            assembler.exit();
        }
        assembler.place(label);
        assert_eq!(assembler.finish(), Err(AssembleError::Distance), "far");
    }
}
