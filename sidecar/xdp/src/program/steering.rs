//! What the steering program does, instruction by instruction.

use std::net::IpAddr;
use std::os::fd::RawFd;

use super::assembler::{AssembleError, Assembler, Label, Register, Size};
use super::listen::Listen;
use crate::sys::bpf::Instruction;

/// `XDP_PASS` of `enum xdp_action` (linux/bpf.h)
const PASS: i32 = 2;
/// `BPF_FUNC_redirect_map`
const REDIRECT_MAP: i32 = 51;

// `struct xdp_md` (linux/bpf.h)
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

// Offsets into packets, from the Ethernet header on.
const ETHERTYPE: i16 = 12;
const IP: i16 = 14;
const IPV4_BYTES: i16 = IP + 2;
const IPV4_FRAGMENT: i16 = IP + 6;
const IPV4_PROTOCOL: i16 = IP + 9;
const IPV4_DESTINATION: i16 = IP + 16;
const IPV4_UDP: i16 = IP + 20;
const IPV6_PAYLOAD_BYTES: i16 = IP + 4;
const IPV6_HEADER_BYTES: u32 = 40;
const IPV6_PROTOCOL: i16 = IP + 6;
const IPV6_DESTINATION: i16 = IP + 24;
const IPV6_UDP: i16 = IP + 40;
const UDP_DESTINATION: i16 = 2;
const UDP_BYTES: i16 = 8;

// Which register holds what.
const RESULT: Register = Register::R0;
const CONTEXT: Register = Register::R6;
const DATA: Register = Register::R2;
const DATA_END: Register = Register::R3;
const END: Register = Register::R4;
const FIELD: Register = Register::R5;

/// UDP to one of the addresses and the port goes to the socket of its queue: IPv4 without options or fragments, IPv6
/// without extension headers. Everything else passes to the kernel, and so does what comes to a queue without a socket,
/// and what a kernel joined: a veth passes it whole, and the kernel's socket beside the link takes it apart.
pub(super) fn program(listen: &Listen, sockets: RawFd) -> Result<Vec<Instruction>, AssembleError> {
    let mut assembler = Assembler::default();
    let (pass, take, six) = (assembler.label(), assembler.label(), assembler.label());
    let code = &mut assembler;
    code.move_register(CONTEXT, Register::R1);
    code.load(Size::Word, DATA, CONTEXT, CONTEXT_DATA);
    code.load(Size::Word, DATA_END, CONTEXT, CONTEXT_DATA_END);
    need(code, IPV4_UDP + UDP_BYTES, pass);
    code.load(Size::Half, FIELD, DATA, ETHERTYPE);
    code.jump_if_equal(FIELD, in_memory_half(0x86dd), six);
    code.jump_if_not_equal(FIELD, in_memory_half(0x0800), pass);
    four(code, listen, take, pass);
    code.place(six);
    need(code, IPV6_UDP + UDP_BYTES, pass);
    self::six(code, listen, take, pass);
    code.place(take);
    code.load_map(Register::R1, sockets);
    code.load(Size::Word, Register::R2, CONTEXT, CONTEXT_QUEUE);
    // What the helper returns where the map has no socket.
    code.move_immediate(Register::R3, PASS);
    code.call(REDIRECT_MAP);
    code.exit();
    code.place(pass);
    code.move_immediate(RESULT, PASS);
    code.exit();
    assembler.finish()
}

fn four(code: &mut Assembler, listen: &Listen, take: Label, pass: Label) {
    // Version 4, and a header of five words.
    expect(code, Size::Byte, IP, 0x45, pass);
    expect(code, Size::Byte, IPV4_PROTOCOL, 17, pass);
    code.load(Size::Half, FIELD, DATA, IPV4_FRAGMENT);
    code.and(FIELD, in_memory_half(0x3fff).cast_signed());
    code.jump_if_not_equal(FIELD, 0, pass);
    expect(code, Size::Half, IPV4_UDP + UDP_DESTINATION, in_memory_half(listen.port), pass);
    at_most(code, IPV4_BYTES, listen.packet_bytes_max, pass);
    code.load(Size::Word, FIELD, DATA, IPV4_DESTINATION);
    for address in &listen.addresses {
        if let IpAddr::V4(address) = address {
            code.jump_if_equal(FIELD, u32::from_ne_bytes(address.octets()), take);
        }
    }
    code.jump(pass);
}

fn six(code: &mut Assembler, listen: &Listen, take: Label, pass: Label) {
    code.load(Size::Byte, FIELD, DATA, IP);
    code.and(FIELD, 0xf0);
    code.jump_if_not_equal(FIELD, 0x60, pass);
    expect(code, Size::Byte, IPV6_PROTOCOL, 17, pass);
    expect(code, Size::Half, IPV6_UDP + UDP_DESTINATION, in_memory_half(listen.port), pass);
    at_most(code, IPV6_PAYLOAD_BYTES, listen.packet_bytes_max.saturating_sub(IPV6_HEADER_BYTES), pass);
    for address in &listen.addresses {
        let IpAddr::V6(address) = address else { continue };
        let next = code.label();
        let octets = address.octets();
        let (words, _) = octets.as_chunks::<4>();
        for (offset, word) in (IPV6_DESTINATION..).step_by(4).zip(words) {
            expect(code, Size::Word, offset, u32::from_ne_bytes(*word), next);
        }
        code.jump(take);
        code.place(next);
    }
    code.jump(pass);
}

/// The packet has at least so many bytes, which the verifier wants to see before any is read.
fn need(code: &mut Assembler, bytes: i16, otherwise: Label) {
    code.move_register(END, DATA);
    code.add(END, bytes.into());
    code.jump_if_greater(END, DATA_END, otherwise);
}

fn expect(code: &mut Assembler, size: Size, offset: i16, value: u32, otherwise: Label) {
    code.load(size, FIELD, DATA, offset);
    code.jump_if_not_equal(FIELD, value, otherwise);
}

/// A length of the network is not greater than this.
fn at_most(code: &mut Assembler, offset: i16, bytes: u32, otherwise: Label) {
    code.load(Size::Half, FIELD, DATA, offset);
    code.order_half(FIELD);
    code.move_immediate(END, i32::try_from(bytes).unwrap_or(i32::MAX));
    code.jump_if_greater(FIELD, END, otherwise);
}

/// A field of the network, as a load of two bytes sees it.
fn in_memory_half(value: u16) -> u32 {
    u16::from_ne_bytes(value.to_be_bytes()).into()
}
