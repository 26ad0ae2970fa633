//! Who is at the other end of a socket: a process that the kernel names, and that cannot become another one meanwhile.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerPidfd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::UnixStream;

use super::cgroup::{Container, TEXT_BYTES_MAX};
use super::refusal::Refusal;

/// An entry of /proc/self/fdinfo has a few hundred bytes.
const ENTRY_BYTES_MAX: u64 = 4096;

/// The process that connected, held by a descriptor: its number is not given to another one unnoticed.
#[derive(Debug)]
pub(super) struct Caller {
    process: OwnedFd,
    pid: u32,
}

impl Caller {
    /// # Errors
    /// [`Refusal`] when the kernel does not tell, or the process has ended.
    pub(super) fn of(stream: &UnixStream) -> Result<Self, Refusal> {
        let process = getsockopt(stream, PeerPidfd).map_err(|error| match error {
            Errno::ENOPROTOOPT | Errno::EOPNOTSUPP => Refusal::KernelTooOld,
            _ => Refusal::Gone,
        })?;
        let pid = pid(&process)?;
        Ok(Self { process, pid })
    }

    /// The container that the process is in, by the process file system at `proc`.
    ///
    /// # Errors
    /// [`Refusal`] when it is in none, or has ended: only while the descriptor says that the process lives, its number
    /// was its own, and what was read under it is about it.
    pub(super) fn container(&self, proc: &Path) -> Result<Container, Refusal> {
        let text = read(&proc.join(self.pid.to_string()).join("cgroup"), TEXT_BYTES_MAX as u64);
        self.lives()?;
        let text = text.map_err(|_| Refusal::NoContainer)?;
        Container::of(&text).ok_or(Refusal::NoContainer)
    }

    /// # Errors
    /// [`Refusal::Gone`] once the process has ended.
    pub(super) fn lives(&self) -> Result<(), Refusal> {
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A descriptor of a process becomes readable when it ends (pidfd_open(2)).
        match poll(&mut watched, Some(&now)) {
            Ok(0) => Ok(()),
            Ok(_) | Err(_) => Err(Refusal::Gone),
        }
    }
}

/// Whether this kernel tells who connects.
///
/// # Errors
/// [`Refusal::KernelTooOld`] if it does not.
pub(super) fn supported() -> Result<(), Refusal> {
    let Ok((one, _other)) = std::os::unix::net::UnixStream::pair() else { return Err(Refusal::KernelTooOld) };
    getsockopt(&one, PeerPidfd).map(drop).map_err(|_| Refusal::KernelTooOld)
}

/// The number of the process, in the process namespace of our /proc.
fn pid(process: &OwnedFd) -> Result<u32, Refusal> {
    let entry = PathBuf::from(format!("/proc/self/fdinfo/{}", process.as_raw_fd()));
    let text = read(&entry, ENTRY_BYTES_MAX).map_err(|_| Refusal::Invisible)?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    // -1 once it has ended, 0 where it has no number in our namespace (pidfd_open(2)).
    match number.and_then(|number| number.trim().parse::<i64>().ok()) {
        Some(-1) => Err(Refusal::Gone),
        Some(number) if number > 0 => u32::try_from(number).map_err(|_| Refusal::Invisible),
        Some(_) | None => Err(Refusal::Invisible),
    }
}

fn read(path: &Path, most: u64) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(most.saturating_add(1)).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= most) {
        Ok(text)
    } else {
        Err(std::io::ErrorKind::FileTooLarge.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as StdStream;
    use std::process::{Child, Command, Stdio};

    use tokio::net::UnixListener;

    use super::*;

    const SOCKET: &str = "SEALANE_TEST_AGENT_SOCKET";

    /// Not a test by itself: the process that [`Connected`] starts.
    #[test]
    fn child() {
        let Ok(path) = std::env::var(SOCKET) else { return };
        let stream = StdStream::connect(path).unwrap();
        // Until nobody wants it any more.
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        drop(stream);
    }

    /// A process of its own that has connected.
    struct Connected {
        child: Child,
        stream: UnixStream,
        _folder: tempfile::TempDir,
    }

    impl Connected {
        async fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.sock");
            let listener = UnixListener::bind(&path).unwrap();
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "agent::caller::tests::child", "--nocapture"])
                .env(SOCKET, &path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            Self { child, stream, _folder: folder }
        }

        fn end(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    /// A process file system in which the process is in this cgroup.
    fn proc(pid: u32, cgroup: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let entry = folder.path().join(pid.to_string());
        std::fs::create_dir(&entry).unwrap();
        File::create(entry.join("cgroup")).unwrap().write_all(cgroup.as_bytes()).unwrap();
        folder
    }

    #[tokio::test]
    async fn the_caller_is_the_process_that_connected() {
        let mut connected = Connected::start().await;
        let caller = Caller::of(&connected.stream).unwrap();
        assert_eq!(caller.pid, connected.child.id());
        caller.lives().unwrap();
        let cgroup = format!("0::/kubepods/pod6f1c/{}\n", "a".repeat(64));
        let proc = proc(caller.pid, &cgroup);
        assert_eq!(caller.container(proc.path()).unwrap().pod_uid, "6f1c");
        connected.end();
    }

    #[tokio::test]
    async fn a_process_that_ended_is_nobody_even_if_its_number_is_in_use() {
        let mut connected = Connected::start().await;
        let caller = Caller::of(&connected.stream).unwrap();
        let proc = proc(caller.pid, &format!("0::/kubepods/pod6f1c/{}\n", "a".repeat(64)));
        connected.end();
        assert!(matches!(caller.lives(), Err(Refusal::Gone)));
        assert!(matches!(caller.container(proc.path()), Err(Refusal::Gone)), "whoever has the number now");
        assert!(matches!(Caller::of(&connected.stream), Err(Refusal::Gone)));
    }

    #[tokio::test]
    async fn a_process_outside_of_containers_is_refused() {
        let mut connected = Connected::start().await;
        let caller = Caller::of(&connected.stream).unwrap();
        let outside = proc(caller.pid, "0::/system.slice/cron.service\n");
        assert!(matches!(caller.container(outside.path()), Err(Refusal::NoContainer)));
        let endless = proc(caller.pid, &"0::/\n".repeat(TEXT_BYTES_MAX));
        assert!(matches!(caller.container(endless.path()), Err(Refusal::NoContainer)));
        let unknown = proc(1, "");
        assert!(matches!(caller.container(unknown.path()), Err(Refusal::NoContainer)));
        connected.end();
    }

    #[test]
    fn this_kernel_tells_who_connects() {
        supported().unwrap();
    }
}
