//! The traffic that `make bench` sends through every tunnel: echo requests at a steady interval,
//! and small datagrams at a steady rate or as fast as possible. Each command prints one JSON
//! object.
//!
//! Left out: sending in batches. A flood stands for many small writes of a program.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

/// Payload of a flood's datagrams.
const DATAGRAM_BYTES: usize = 64;
/// The payload size of ping's echo requests.
const ECHO_BYTES: usize = 56;
const ICMP_HEADER_BYTES: usize = 8;
/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// A flood is over when nothing came for this long; full queues empty sooner.
const DRAIN: Duration = Duration::from_millis(200);
/// How long a receiver waits for the first datagram.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// A paced sender sends all due datagrams once per tick.
const TICK: Duration = Duration::from_millis(1);
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Round trips of echo requests, in microseconds. Lost ones are left out.
    Echo {
        /// The address to ping.
        address: Ipv4Addr,
        /// From one request to the next.
        #[arg(long)]
        interval_us: u64,
        /// How many.
        #[arg(long)]
        count: u16,
    },
    /// Sends datagrams of 64 bytes.
    Send {
        /// The destination.
        to: SocketAddr,
        /// Datagrams per second; 0: as fast as possible.
        #[arg(long)]
        rate: u64,
        /// For how long.
        #[arg(long)]
        milliseconds: u64,
    },
    /// Prints `ready`, then counts datagrams until no more come.
    Receive {
        /// Own address.
        at: SocketAddr,
    },
}

fn main() -> anyhow::Result<()> {
    let report = match Arguments::parse().command {
        Some(Command::Echo {
            address,
            interval_us,
            count,
        }) => echo(address, Duration::from_micros(interval_us), count)?,
        Some(Command::Send {
            to,
            rate,
            milliseconds,
        }) => send(to, rate, Duration::from_millis(milliseconds))?,
        Some(Command::Receive { at }) => receive(at)?,
        // `cargo bench` and `cargo test --benches` name no command.
        None => return Ok(()),
    };
    println!("{report}");
    Ok(())
}

fn echo(address: Ipv4Addr, interval: Duration, count: u16) -> anyhow::Result<Value> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.connect(&SocketAddr::new(IpAddr::V4(address), 0).into())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // Others on this host may ping the same peer.
    let own = std::process::id().to_be_bytes();
    let own = [own[2], own[3]];
    let mut round_trips_us = Vec::with_capacity(count.into());
    let began = Instant::now();
    for number in 0..count {
        let due = began + interval * u32::from(number);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        socket.send(&echo_request(own, number))?;
        if is_answered(&socket, own, number)? {
            round_trips_us.push(sent.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(json!({ "round_trips_us": round_trips_us }))
}

/// RFC 792: type 8, code 0, checksum, identifier, sequence number.
fn echo_request(own: [u8; 2], number: u16) -> Vec<u8> {
    let mut message = vec![0; ICMP_HEADER_BYTES + ECHO_BYTES];
    message[0] = 8;
    message[4..6].copy_from_slice(&own);
    message[6..8].copy_from_slice(&number.to_be_bytes());
    let words = message.chunks_exact(2);
    let sum: u32 = words
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded + (folded >> 16)) as u16);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}

/// Reads until the answer to this request arrives, or until nothing more comes.
fn is_answered(socket: &Socket, own: [u8; 2], number: u16) -> anyhow::Result<bool> {
    use std::io::Read;
    let mut packet = [0; 2048];
    loop {
        let read = match (&mut &*socket).read(&mut packet) {
            Ok(read) => read,
            Err(fault) if is_empty(fault.kind()) => return Ok(false),
            Err(fault) => return Err(fault.into()),
        };
        // A raw IPv4 socket delivers the IP header too.
        let header = usize::from(packet[0] & 0x0f) * 4;
        let Some(message) = packet[..read].get(header..header + ICMP_HEADER_BYTES) else {
            continue;
        };
        if message[0] == 0 && message[4..6] == own && message[6..8] == number.to_be_bytes() {
            return Ok(true);
        }
    }
}

fn send(to: SocketAddr, rate: u64, length: Duration) -> anyhow::Result<Value> {
    let socket = UdpSocket::bind(SocketAddr::new(unspecified(to), 0))?;
    socket.connect(to)?;
    let payload = [0x5a; DATAGRAM_BYTES];
    let (mut sent, mut refused) = (0_u64, 0_u64);
    let mut offer = || match socket.send(&payload) {
        Ok(_) => sent += 1,
        // The queue is full, or nobody listens any more.
        Err(_) => refused += 1,
    };
    let began = Instant::now();
    let mut offered = 0;
    while began.elapsed() < length {
        if rate == 0 {
            offer();
            continue;
        }
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while offered < due {
            offer();
            offered += 1;
        }
        std::thread::sleep(TICK);
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({ "sent": sent, "refused": refused, "seconds": seconds }))
}

fn receive(at: SocketAddr) -> anyhow::Result<Value> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    // Whatever size the kernel grants is enough: the reader does nothing else.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    socket
        .bind(&at.into())
        .with_context(|| format!("cannot bind {at}"))?;
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(FIRST_PATIENCE))?;
    println!("ready");
    let mut payload = [0; 2 * DATAGRAM_BYTES];
    if socket.recv(&mut payload).is_err() {
        bail!("no datagram came within {} s", FIRST_PATIENCE.as_secs());
    }
    socket.set_read_timeout(Some(DRAIN))?;
    let began = Instant::now();
    let (mut received, mut last) = (1_u64, began);
    loop {
        match socket.recv(&mut payload) {
            Ok(_) => {
                received += 1;
                last = Instant::now();
            }
            Err(fault) if is_empty(fault.kind()) => break,
            Err(fault) => return Err(fault.into()),
        }
    }
    let seconds = (last - began).as_secs_f64();
    Ok(json!({ "received": received, "seconds": seconds }))
}

fn unspecified(of: SocketAddr) -> IpAddr {
    match of {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

/// Nothing came in time.
fn is_empty(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
