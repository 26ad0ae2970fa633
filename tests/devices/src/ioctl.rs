//! Calls that point into the memory of whoever makes them.

use std::io::{IoSlice, IoSliceMut};

use aws_nitro_enclaves_nsm_api::api::{Request, Response};
use fuser::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use crate::Behaviour;

fn number(data: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(data[at..at + 8].try_into().unwrap())).unwrap()
}

fn read(pid: u32, base: usize, len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let pid = Pid::from_raw(pid.cast_signed());
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &[RemoteIoVec { base, len }]);
    if read == Ok(len) { Ok(bytes) } else { Err(Errno::EFAULT) }
}

fn write(pid: u32, base: usize, bytes: &[u8]) -> Result<(), Errno> {
    let pid = Pid::from_raw(pid.cast_signed());
    let len = bytes.len();
    let written = process_vm_writev(pid, &[IoSlice::new(bytes)], &[RemoteIoVec { base, len }]);
    if written == Ok(len) { Ok(()) } else { Err(Errno::EFAULT) }
}

/// What a call returns, and the argument as the device leaves it: a device may write into it and fail all the same.
pub(crate) type Answer = (i32, Vec<u8>);

/// SNP_GET_REPORT (linux/sev-guest.h): message version, addresses of request and response, error of the firmware.
pub(crate) fn sev_guest(behaviour: &Behaviour, pid: u32, data: &[u8]) -> Result<Answer, Errno> {
    // User data, level, reserved.
    let request = read(pid, number(data, 8), 96)?;
    let level = u32::from_le_bytes(request[64..68].try_into().unwrap());
    let mut answer = data.to_vec();
    if level < behaviour.level {
        // INVALID_PARAM of the firmware, in the lower half of the error.
        answer[24..32].copy_from_slice(&0x16_u64.to_le_bytes());
        return Ok((-Errno::EIO.code(), answer));
    }
    let report = (behaviour.sign)(request[..64].try_into().unwrap());
    // Status, size, reserved, report.
    let mut response = vec![0; 32];
    response[4..8].copy_from_slice(&u32::try_from(report.len()).unwrap().to_le_bytes());
    response.extend_from_slice(&report);
    write(pid, number(data, 16), &response)?;
    answer[24..32].fill(0);
    Ok((0, answer))
}

/// A message to the Nitro Secure Module: two buffers, each an address and a length. The document that it answers with
/// is what it was asked for, one after the other.
pub(crate) fn nsm(pid: u32, data: &[u8]) -> Result<Answer, Errno> {
    let request = read(pid, number(data, 0), number(data, 8))?;
    let asked = ciborium::from_reader::<Request, _>(&request[..]).map_err(|_| Errno::EINVAL)?;
    let Request::Attestation { user_data, nonce, public_key } = asked else { return Err(Errno::EINVAL) };
    let document: Vec<u8> =
        [user_data, nonce, public_key].into_iter().flatten().flat_map(|bytes| bytes.into_vec()).collect();
    let mut response = Vec::new();
    ciborium::into_writer(&Response::Attestation { document }, &mut response)
        .expect("memory takes every write");
    if response.len() > number(data, 24) {
        return Err(Errno::EINVAL);
    }
    write(pid, number(data, 16), &response)?;
    let mut answer = data.to_vec();
    answer[24..32].copy_from_slice(&(response.len() as u64).to_le_bytes());
    Ok((0, answer))
}
