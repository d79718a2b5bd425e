//! `--capture FILE.pcapng` records the outer datagrams, IKE and ESP, as raw IP packets. A separate
//! thread writes them. Beside it, `FILE.pcapng.keys` is a Wireshark configuration folder that
//! decrypts them: `WIRESHARK_CONFIG_DIR=FILE.pcapng.keys tshark -r FILE.pcapng`. Between the
//! packets stand lines of ours, in systemd Journal Export Blocks: what we have read in each IKE
//! message, for what Wireshark cannot decrypt.
//!
//! IP and UDP headers are rebuilt from what the sockets know: identification is 0 and the TTL is
//! 64. A full queue drops and counts, so that packet threads never wait. Follows
//! draft-ietf-opsawg-pcapng; leaves out all blocks except the four that it needs.

pub mod keys;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::plane::Run;
use engine::sa::{Path, Via};
use tracing::warn;
use wire::ip::checksum::{Sum, checksum};
use wire::ip::protocol::UDP;

use crate::files;
use crate::sys::datagram::Incoming;

pub use keys::Keys;

/// Packets that may wait for the disk.
const QUEUE: usize = 4096;
/// Written packets reach the file at least this often.
const FLUSH: Duration = Duration::from_millis(200);
/// LINKTYPE_RAW: an IP packet without any link header.
const LINK_TYPE_RAW: u16 = 101;
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const JOURNAL_EXPORT: u32 = 9;

struct Captured {
    at: Duration,
    what: What,
}

enum What {
    Packet(Vec<u8>),
    Line(String),
}

/// The packet threads' end of a capture.
#[derive(Clone)]
pub struct Tap {
    queue: SyncSender<Captured>,
    dropped: Arc<AtomicU64>,
}

/// A capture in progress; dropping it finishes the file once every [`Tap`] is gone.
pub struct Capture {
    tap: Option<Tap>,
    path: PathBuf,
    /// Why writing has stopped.
    fault: Arc<OnceLock<String>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

/// The open file of a capture.
pub struct CaptureFile {
    file: BufWriter<File>,
    path: PathBuf,
}

impl CaptureFile {
    /// Creates the file (mode 0600), or opens a pipe that has a reader.
    pub fn create(path: &FilePath) -> io::Result<Self> {
        let mut file = BufWriter::new(files::open_private(path)?);
        write_headers(&mut file)?;
        let path = path.to_owned();
        Ok(Self { file, path })
    }
}

impl Capture {
    /// Starts the thread that writes to the file.
    pub fn start(CaptureFile { mut file, path }: CaptureFile) -> io::Result<Self> {
        let (queue, captured) = sync_channel(QUEUE);
        let tap = Tap {
            queue,
            dropped: Arc::default(),
        };
        let builder = std::thread::Builder::new().name("caravan-capture".to_owned());
        let fault = Arc::new(OnceLock::new());
        let (told, name) = (fault.clone(), path.display().to_string());
        let writer = builder.spawn(move || {
            write_all(&mut file, &captured).inspect_err(|error| {
                warn!("{name} is cut off, the capture has ended: {error}");
                // Only this thread sets it.
                let _ = told.set(error.to_string());
            })
        })?;
        Ok(Self {
            tap: Some(tap),
            path,
            fault,
            writer: Some(writer),
        })
    }

    /// A [`Tap`] for another packet thread.
    pub fn tap(&self) -> Tap {
        self.tap.clone().expect("taken only by finish and drop")
    }

    /// The file of the capture.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// Why writing has stopped, if it has.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Packets lost because the disk was slow.
    pub fn dropped(&self) -> u64 {
        let tap = self.tap.as_ref();
        tap.map_or(0, |tap| tap.dropped.load(Ordering::Relaxed))
    }

    /// Waits until everything is written. Every other [`Tap`] must be gone.
    pub fn finish(mut self) -> io::Result<()> {
        self.tap = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            _ => Err(io::Error::other("the capture's writer panicked")),
        }
    }
}

impl Tap {
    /// Records a run before it is sent.
    pub fn run(&self, run: &Run, bytes: &[u8]) {
        match run.path.via {
            Via::Udp | Via::UdpWithMarker | Via::UdpWithType | Via::UdpWithSkip => {
                let (from, to) = (run.path.local, run.path.remote);
                for datagram in bytes.chunks(run.segment_bytes.max(1)) {
                    self.udp(from, to, run.traffic_class, datagram);
                }
            }
            Via::Raw => self.packet(bytes),
        }
    }

    /// Records a buffer that a UDP socket received.
    pub fn received(&self, path: &Path, incoming: &Incoming, bytes: &[u8]) {
        for datagram in bytes.chunks(incoming.segment()) {
            self.udp(path.remote, path.local, incoming.traffic_class, datagram);
        }
    }

    /// Records a UDP payload, such as an IKE message that control sends.
    pub fn udp(&self, from: SocketAddr, to: SocketAddr, traffic_class: u8, payload: &[u8]) {
        self.give(|| What::Packet(udp_packet(from, to, traffic_class, payload)));
    }

    /// Records a whole IP packet.
    pub fn packet(&self, packet: &[u8]) {
        self.give(|| What::Packet(packet.to_vec()));
    }

    /// Records a line of text after the packets so far.
    pub fn line(&self, text: &str) {
        self.give(|| What::Line(text.to_owned()));
    }

    fn give(&self, what: impl FnOnce() -> What) {
        let at = SystemTime::now();
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let what = what();
        if self.queue.try_send(Captured { at, what }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An IPv4 or IPv6 packet around a UDP payload; empty if the families differ.
pub(crate) fn udp_packet(
    from: SocketAddr,
    to: SocketAddr,
    traffic_class: u8,
    payload: &[u8],
) -> Vec<u8> {
    let udp_bytes = 8 + payload.len();
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let first = 6u32 << 28 | u32::from(traffic_class) << 20;
            let mut header = first.to_be_bytes().to_vec();
            header.extend_from_slice(&(udp_bytes as u16).to_be_bytes());
            header.extend_from_slice(&[UDP, 64]);
            header.extend_from_slice(&source.octets());
            header.extend_from_slice(&destination.octets());
            header
        }
        (source, destination) => {
            let total = ((20 + udp_bytes) as u16).to_be_bytes();
            let mut header = vec![
                0x45,
                traffic_class,
                total[0],
                total[1],
                0,
                0,
                0x40,
                0,
                64,
                UDP,
            ];
            header.extend_from_slice(&[0, 0]);
            for address in [source, destination] {
                let IpAddr::V4(address) = address else {
                    return Vec::new();
                };
                header.extend_from_slice(&address.octets());
            }
            let sum = checksum(&header).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
            header
        }
    };
    let start = packet.len();
    for field in [from.port(), to.port(), udp_bytes as u16, 0] {
        packet.extend_from_slice(&field.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    let pseudo = Sum::pseudo_header(from.ip(), to.ip(), UDP, udp_bytes);
    let sum = match pseudo.bytes(&packet[start..]).finish() {
        0 => 0xffff,
        sum => sum,
    };
    packet[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn write_all(file: &mut impl Write, captured: &Receiver<Captured>) -> io::Result<()> {
    loop {
        match captured.recv_timeout(FLUSH) {
            Ok(Captured { at, what }) => match what {
                What::Packet(packet) => write_packet(file, at, &packet)?,
                What::Line(text) => write_line(file, at, &text)?,
            },
            Err(RecvTimeoutError::Timeout) => file.flush()?,
            Err(RecvTimeoutError::Disconnected) => return file.flush(),
        }
    }
}

fn write_headers(file: &mut impl Write) -> io::Result<()> {
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend_from_slice(&1u16.to_le_bytes());
    section.extend_from_slice(&0u16.to_le_bytes());
    section.extend_from_slice(&u64::MAX.to_le_bytes());
    write_block(file, SECTION_HEADER, &section)?;
    let mut interface = LINK_TYPE_RAW.to_le_bytes().to_vec();
    interface.extend_from_slice(&[0; 6]);
    // Option if_tsresol: 10^-9 s.
    interface.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0]);
    interface.extend_from_slice(&[0; 4]);
    write_block(file, INTERFACE_DESCRIPTION, &interface)
}

fn write_packet(file: &mut impl Write, at: Duration, packet: &[u8]) -> io::Result<()> {
    let at = at.as_nanos() as u64;
    let len = (packet.len() as u32).to_le_bytes();
    let mut body = vec![0; 4];
    body.extend_from_slice(&((at >> 32) as u32).to_le_bytes());
    body.extend_from_slice(&(at as u32).to_le_bytes());
    body.extend_from_slice(&len);
    body.extend_from_slice(&len);
    body.extend_from_slice(packet);
    write_block(file, ENHANCED_PACKET, &body)
}

/// `text` is one line.
fn write_line(file: &mut impl Write, at: Duration, text: &str) -> io::Result<()> {
    let micros = at.as_micros();
    let entry =
        format!("__REALTIME_TIMESTAMP={micros}\nSYSLOG_IDENTIFIER=caravan\nMESSAGE={text}\n");
    write_block(file, JOURNAL_EXPORT, entry.as_bytes())
}

fn write_block(file: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padded = body.len().next_multiple_of(4);
    let total = (12 + padded as u32).to_le_bytes();
    file.write_all(&kind.to_le_bytes())?;
    file.write_all(&total)?;
    file.write_all(body)?;
    file.write_all(&[0; 3][..padded - body.len()])?;
    file.write_all(&total)
}

#[cfg(test)]
mod tests;
