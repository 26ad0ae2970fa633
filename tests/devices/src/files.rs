//! The file system.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, IoctlFlags,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use crate::Behaviour;
use crate::ioctl;
use crate::tree::{self, Entries, NSM, REPORTS, ROOT, SEV_GUEST};

/// Nothing is cached: every read sees what the device says now.
const NO_TIME: Duration = Duration::ZERO;

pub(crate) struct Files {
    behaviour: Arc<Mutex<Behaviour>>,
    entries: Mutex<Entries>,
}

impl Files {
    pub(crate) fn new(behaviour: Arc<Mutex<Behaviour>>) -> Self {
        Self { behaviour, entries: Mutex::default() }
    }

    fn find(&self, parent: u64, name: &str) -> Option<u64> {
        match (parent, name) {
            (ROOT, "report") => Some(REPORTS),
            (ROOT, "sev-guest") => Some(SEV_GUEST),
            (ROOT, "nsm") => Some(NSM),
            (ROOT, _) => None,
            (REPORTS, name) => self.entries.lock().unwrap().find(name),
            (entry, name) => tree::attribute_number(entry, name),
        }
    }

    fn counted(&self, entries: &Entries) {
        self.behaviour.lock().unwrap().entries = entries.all.len();
    }
}

fn attributes(number: u64) -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    let directory = tree::is_directory(number);
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: if directory { FileType::Directory } else { FileType::RegularFile },
        perm: if directory { 0o755 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        flags: 0,
        blksize: 512,
    }
}

fn text(name: &OsStr) -> &str {
    name.to_str().unwrap_or_default()
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent.0, text(name)) {
            Some(number) => reply.entry(&NO_TIME, &attributes(number), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&NO_TIME, &attributes(number.0));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut entries = self.entries.lock().unwrap();
        if parent.0 != REPORTS {
            return reply.error(Errno::EPERM);
        }
        let Some(number) = entries.create(text(name)) else { return reply.error(Errno::EEXIST) };
        self.counted(&entries);
        reply.entry(&NO_TIME, &attributes(number), Generation(0));
    }

    fn rmdir(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut entries = self.entries.lock().unwrap();
        entries.remove(text(name));
        self.counted(&entries);
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut entries = self.entries.lock().unwrap();
        match entries.attribute(number.0) {
            Some((entry, "inblob")) if (1..=64).contains(&data.len()) => {
                entry.inblob = data.to_vec();
                entry.outblob = None;
                entry.generation += 1;
            }
            Some((entry, "privlevel")) => entry.generation += 1,
            Some((_, "inblob")) => return reply.error(Errno::EINVAL),
            Some(_) => return reply.error(Errno::EPERM),
            None => return reply.error(Errno::ENOENT),
        }
        reply.written(u32::try_from(data.len()).unwrap());
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut entries = self.entries.lock().unwrap();
        let behaviour = self.behaviour.lock().unwrap();
        let Some((entry, attribute)) = entries.attribute(number.0) else { return reply.error(Errno::ENOENT) };
        let answer = match attribute {
            "outblob" | "auxblob" if entry.inblob.is_empty() => return reply.error(Errno::EINVAL),
            "outblob" => {
                if behaviour.raced && offset == 0 {
                    entry.generation += 1;
                }
                let mut asked = [0; 64];
                asked[..entry.inblob.len()].copy_from_slice(&entry.inblob);
                entry.outblob.get_or_insert_with(|| (behaviour.sign)(&asked)).clone()
            }
            "auxblob" => behaviour.table.clone(),
            "provider" => format!("{}\n", behaviour.provider).into_bytes(),
            "generation" => format!("{}\n", entry.generation).into_bytes(),
            _ => return reply.error(Errno::EPERM),
        };
        let from = usize::try_from(offset).unwrap().min(answer.len());
        let until = (from + size as usize).min(answer.len());
        reply.data(&answer[from..until]);
    }

    fn ioctl(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let behaviour = self.behaviour.lock().unwrap();
        let answered = match (number.0, command & 0xff) {
            (SEV_GUEST, 0) => ioctl::sev_guest(&behaviour, request.pid(), data),
            (NSM, 0) => ioctl::nsm(request.pid(), data),
            _ => Err(Errno::ENOTTY),
        };
        match answered {
            Ok((returned, argument)) => reply.ioctl(returned, &argument),
            Err(error) => reply.error(error),
        }
    }
}
