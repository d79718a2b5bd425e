//! When frames came to the relay, and how late they leave it.
//!
//! The kernel notes when a frame comes. Its time on the link begins then, however late this thread
//! reads it. It leaves when this thread wakes, which is later than it is due: whoever measures over
//! an emulated link has that time in the result, and can take it off with what is written here.
//! Left out: frames that are not charged.

use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::time::Instant;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use crate::files;
use crate::planes::Clock;

/// A frame that seems to have waited longer came before the calendar was set.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Octets of both addresses of an Ethernet frame.
const ADDRESSES: usize = 12;

/// Reads frames with the time at which they came.
pub(super) struct Receiver {
    control: Vec<u8>,
    /// When the last one came: for a link time never goes back.
    last: Instant,
}

impl Receiver {
    /// Asks the kernel to note the times of a packet socket's frames.
    pub(super) fn new(socket: BorrowedFd<'_>) -> io::Result<Self> {
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self {
            control: cmsg_space!(TimeSpec),
            last: Instant(0),
        })
    }

    /// The length of the next frame and when it came; none: there is none by now.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        clock: Clock,
    ) -> io::Result<Option<(usize, Instant)>> {
        let mut buffers = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = recvmsg::<()>(
            socket.as_raw_fd(),
            &mut buffers,
            Some(&mut self.control),
            flags,
        );
        let message = match received {
            Ok(message) => message,
            // Nothing is there, or the interface is down for a while.
            Err(Errno::EAGAIN | Errno::ENETDOWN) => return Ok(None),
            Err(fault) => return Err(fault.into()),
        };
        let stamp = message.cmsgs()?.find_map(|one| match one {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let waited = stamp.map_or(Duration::ZERO, |stamp| waited(stamp, since_1970()));
        let came = Instant(clock.now().0.saturating_sub(waited.as_nanos() as u64));
        self.last = self.last.max(came);
        Ok(Some((message.bytes, self.last)))
    }
}

/// How long a frame has waited that came at `stamp`.
fn waited(stamp: Duration, now: Duration) -> Duration {
    let waited = now.saturating_sub(stamp);
    match waited > LONGEST_WAIT {
        true => Duration::ZERO,
        false => waited,
    }
}

fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Where it is written how late frames leave.
#[derive(Clone)]
pub(super) struct Log(Arc<File>);

impl Log {
    /// Writes behind what a plain file of ours has (mode 0600). Whoever reads it may cut it at any
    /// time.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let named = |fault: io::Error| {
            io::Error::new(fault.kind(), format!("--late {}: {fault}", path.display()))
        };
        let file = files::open_behind(path).map_err(named)?;
        Ok(Self(Arc::new(file)))
    }

    /// A frame leaves `late` after it was due, and others had the medium before. Both directions
    /// write whole lines.
    pub(super) fn write(&self, frame: &[u8], late: Duration, waited: Duration) -> io::Result<()> {
        (&*self.0).write_all(line(frame, since_1970(), (late, waited)).as_bytes())
    }
}

fn line(frame: &[u8], now: Duration, (late, waited): (Duration, Duration)) -> String {
    let due = now.saturating_sub(late);
    let mut octets = [0; ADDRESSES];
    let known = frame.len().min(ADDRESSES);
    octets[..known].copy_from_slice(&frame[..known]);
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = octets;
    format!(
        "{}.{:09} {} {} {s0:02x}:{s1:02x}:{s2:02x}:{s3:02x}:{s4:02x}:{s5:02x} \
         {d0:02x}:{d1:02x}:{d2:02x}:{d3:02x}:{d4:02x}:{d5:02x}\n",
        due.as_secs(),
        due.subsec_nanos(),
        late.as_nanos(),
        waited.as_nanos(),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_line_has_when_a_frame_was_due_how_late_it_is_and_whose() {
        let frame = [&[2_u8, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xb][..], &[0; 40]].concat();
        let now = Duration::new(1_700_000_000, 5_000);
        let nanos = Duration::from_nanos;
        let written = line(&frame, now, (nanos(6_001), nanos(7)));
        let wanted = "1699999999.999998999 6001 7 02:00:00:00:00:0b 02:00:00:00:00:01\n";
        assert_eq!(written, wanted);
        // What is too short for Ethernet has no addresses.
        assert!(
            line(&[1], now, (nanos(0), nanos(0)))
                .ends_with(" 00:00:00:00:00:00 01:00:00:00:00:00\n")
        );
    }

    #[test]
    fn a_log_is_a_plain_file_of_ours_and_keeps_what_it_has() {
        let name = format!("caravan-late-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        files::make_folder(&folder, 0o700).expect("made");
        let [victim, link, pipe, own] =
            ["victim", "link", "pipe", "own"].map(|name| folder.join(name));
        fs::write(&victim, "precious\n").expect("written");
        std::os::unix::fs::symlink(&victim, &link).expect("planted");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("made");
        // Opening it to write would wait for a reader.
        let reader = File::options().read(true).write(true).open(&pipe);
        for refused in [&link, &pipe, Path::new("/dev/full")] {
            let fault = Log::open(refused).err().expect("refused").to_string();
            assert!(fault.starts_with("--late "), "{fault}");
        }
        drop(reader);
        assert!(Log::open(&pipe).is_err());
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious\n");
        for lines in 1..=2 {
            let log = Log::open(&own).expect("opened");
            let late = Duration::from_nanos(7);
            log.write(&[0; 20], late, late).expect("written");
            let text = fs::read_to_string(&own).expect("read");
            assert_eq!(text.lines().count(), lines);
            let mode = fs::metadata(&own).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_wait_ends_where_a_calendar_was_set() {
        let at = Duration::from_secs;
        let soon = Duration::from_micros(40);
        assert_eq!(waited(at(100), at(100) + soon), soon);
        assert_eq!(waited(at(100), at(99)), Duration::ZERO);
        assert_eq!(waited(at(100), at(5_000)), Duration::ZERO);
    }

    #[test]
    fn a_frame_came_when_the_kernel_had_it() {
        let (one, other) = nix::sys::socket::socketpair(
            nix::sys::socket::AddressFamily::Unix,
            nix::sys::socket::SockType::Datagram,
            None,
            nix::sys::socket::SockFlag::empty(),
        )
        .expect("two sockets");
        let clock = Clock::start();
        let mut receiver = Receiver::new(other.as_fd()).expect("a socket with times");
        let mut buffer = [0; 64];
        let none = receiver.receive(other.as_fd(), &mut buffer, clock);
        assert!(none.expect("no fault").is_none());
        nix::unistd::write(&one, b"a frame").expect("room");
        let before = clock.now();
        let received = receiver.receive(other.as_fd(), &mut buffer, clock);
        let (length, came) = received.expect("no fault").expect("a frame");
        assert_eq!(&buffer[..length], b"a frame");
        assert!(came <= clock.now() && came.0 + 1_000_000_000 > before.0);
    }
}
