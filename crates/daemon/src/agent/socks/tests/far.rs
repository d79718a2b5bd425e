//! The far end: a gateway on loopback, and one host behind it that echoes, resets and resolves.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use crypto::rand::Seed;
use engine::config::Config;
use engine::endpoint::{Effect, Endpoint};
use engine::node::{Command, Event, Input};
use engine::plane::Offloads;
use engine::sa::Path;
use engine::time::Instant;
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::agent::socks::device::Device;
use crate::config::{Names, load};

/// The host behind the gateway.
pub(super) const HOST: [u8; 4] = [10, 1, 0, 1];
/// What comes here goes back.
pub(super) const ECHO_PORT: u16 = 7;
/// What comes here resets the connection.
pub(super) const SILENT_PORT: u16 = 99;
const DNS_PORT: u16 = 53;
const BUFFER_BYTES: usize = 256 << 10;

/// Numbers the files of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A configuration of one end, from the text of a file.
pub(super) fn config(says: &str, (own, peer): (&str, &str), child: &str) -> Config {
    let pool = match says.contains("pools") {
        true => format!("[pools.inner]\naddrs = \"10.99.0.0/24\"\n{}", dns_of(says)),
        false => String::new(),
    };
    let says = says.replace(DNS, "");
    let text = format!(
        "[connections.home]\nversion = 1\nlegacy = true\naggressive = true\n{says}\
         local = {{ auth = \"psk\", secret = \"a secret of a test\", id = \"{own}\" }}\n\
         remote = {{ auth = \"psk\", id = \"{peer}\" }}\n\
         [connections.home.children.net]\n{child}\n{pool}"
    );
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("caravan-socks-{}-{number}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("written");
    let loaded = load(&path, Names::Needed).unwrap_or_else(|fault| panic!("{fault}"));
    std::fs::remove_file(&path).expect("removed");
    loaded.engine
}

/// Marks a gateway with a resolver.
const DNS: &str = "# with a resolver\n";

fn dns_of(says: &str) -> &'static str {
    if says.contains(DNS) {
        "dns = [\"10.1.0.1\"]\n"
    } else {
        ""
    }
}

/// A running far end.
pub(super) struct Far {
    pub(super) address: SocketAddr,
    orders: Sender<()>,
    left: Receiver<()>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Far {
    pub(super) fn start(has_resolver: bool) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("set");
        let address = socket.local_addr().expect("bound");
        let (orders, ordered) = channel();
        let (leave, left) = channel();
        let (stop, stopped) = channel();
        let says = format!(
            "pools = [\"inner\"]\n{}",
            if has_resolver { DNS } else { "" }
        );
        let config = config(
            &says,
            ("sg.example", "ms.example"),
            "local_ts = [\"10.1.0.0/24\"]",
        );
        let thread = std::thread::spawn(move || {
            let mut gateway = Gateway::new(config, socket, leave);
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                gateway.turn(ordered.try_recv().is_ok());
            }
        });
        Self {
            address,
            orders,
            left,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The gateway deletes the tunnel.
    pub(super) fn end_tunnel(&self) {
        self.orders.send(()).expect("it runs");
    }

    /// Whether the client says that it leaves.
    pub(super) fn is_left(&self) -> bool {
        self.left.recv_timeout(Duration::from_secs(60)).is_ok()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the gateway does not panic");
        }
    }
}

struct Gateway {
    endpoint: Endpoint,
    socket: UdpSocket,
    clock: Clock,
    device: Device,
    interface: Interface,
    sockets: SocketSet<'static>,
    echoes: Vec<SocketHandle>,
    silent: SocketHandle,
    names: SocketHandle,
    leave: Sender<()>,
}

impl Gateway {
    fn new(config: Config, socket: UdpSocket, leave: Sender<()>) -> Self {
        let own = Ipv4Addr::LOCALHOST.into();
        let seed = Seed::new([7; 32]);
        let endpoint = Endpoint::new(config, &seed, Offloads::default(), vec![own]);
        let mut device = Device::new(1_400);
        let interface = InterfaceConfig::new(HardwareAddress::Ip);
        let mut interface = Interface::new(interface, &mut device, Micros::ZERO);
        let host = Ipv4Addr::from(HOST);
        interface.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::Ipv4(host), 32))
                .expect("room");
        });
        let routes = interface.routes_mut();
        routes.add_default_ipv4_route(host).expect("room");
        let mut sockets = SocketSet::new(Vec::new());
        let echoes = (0..4).map(|_| sockets.add(listening(ECHO_PORT))).collect();
        let silent = sockets.add(listening(SILENT_PORT));
        let buffer = || {
            let about = vec![udp::PacketMetadata::EMPTY; 16];
            udp::PacketBuffer::new(about, vec![0; 8_192])
        };
        let mut names = udp::Socket::new(buffer(), buffer());
        names.bind(DNS_PORT).expect("its port");
        let names = sockets.add(names);
        Self {
            endpoint,
            socket,
            clock: Clock::now(),
            device,
            interface,
            sockets,
            echoes,
            silent,
            names,
            leave,
        }
    }

    fn now(&self) -> Instant {
        Instant(self.clock.elapsed().as_nanos() as u64)
    }

    fn turn(&mut self, ends_tunnel: bool) {
        let now = self.now();
        if ends_tunnel {
            let down = Command::Down("home".into());
            self.endpoint.handle(Input::Command(down), now);
        }
        if self.endpoint.deadline().is_some_and(|due| due.at <= now) {
            self.endpoint.handle(Input::Wake, now);
        }
        self.settle(now);
        let mut datagram = [0; 65_535];
        let mut left = 64;
        while left > 0
            && let Ok((len, from)) = self.socket.recv_from(&mut datagram)
        {
            let own = self.socket.local_addr().expect("bound");
            let path = Path::udp_with_marker(own, from);
            self.endpoint.receive(path, &mut datagram[..len], now);
            self.settle(now);
            left -= 1;
            self.socket.set_nonblocking(true).expect("set");
        }
        self.socket.set_nonblocking(false).expect("set");
        self.host(now);
    }

    /// The host behind the gateway.
    fn host(&mut self, now: Instant) {
        let micros = Micros::from_micros((now.0 / 1_000) as i64);
        for _ in 0..3 {
            self.interface
                .poll(micros, &mut self.device, &mut self.sockets);
            for echo in &self.echoes {
                let socket = self.sockets.get_mut::<tcp::Socket<'_>>(*echo);
                echo_in(socket);
            }
            let silent = self.sockets.get_mut::<tcp::Socket<'_>>(self.silent);
            if silent.can_recv() {
                silent.abort();
            }
            let names = self.sockets.get_mut::<udp::Socket<'_>>(self.names);
            while let Ok((question, from)) = names.recv() {
                let answer = resolve(question);
                names.send_slice(&answer, from).expect("room");
            }
        }
        let mut packets = Vec::new();
        self.device.drain(|packet| packets.push(packet.to_vec()));
        for mut packet in packets {
            self.endpoint.send(&mut packet, now);
            self.settle(now);
        }
    }

    fn settle(&mut self, now: Instant) {
        while let Some(effect) = self.endpoint.poll(now) {
            match effect {
                Effect::Message(path, octets) => {
                    self.socket.send_to(&octets, path.remote).expect("sent");
                }
                Effect::Sealed(path, octets) => {
                    self.socket.send_to(octets, path.remote).expect("sent");
                }
                Effect::Opened(packet) => self.device.give(packet),
                Effect::Event(Event::SessionEnded { .. }) => {
                    // The test may not care.
                    let _ = self.leave.send(());
                }
                _ => {}
            }
        }
    }
}

fn listening(port: u16) -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.listen(port).expect("its port");
    socket
}

/// Sends what came back, and the end after it; then it listens again.
fn echo_in(socket: &mut tcp::Socket<'_>) {
    while socket.can_recv() && socket.can_send() {
        let room = socket.send_capacity() - socket.send_queue();
        let came = socket.recv(|octets| {
            let len = octets.len().min(room);
            (len, octets[..len].to_vec())
        });
        let came = came.expect("it can");
        if came.is_empty() {
            break;
        }
        let sent = socket.send_slice(&came).expect("it can");
        assert_eq!(sent, came.len(), "there was room");
    }
    if socket.state() == tcp::State::CloseWait && !socket.can_recv() {
        socket.close();
    }
    if socket.state() == tcp::State::Closed {
        socket.listen(ECHO_PORT).expect("its port");
    }
}

/// Answers a question for `echo.example`; there is no other name (RFC 1035 §4.1).
fn resolve(question: &[u8]) -> Vec<u8> {
    let is_known = question[12..].starts_with(b"\x04echo\x07example\x00\x00\x01");
    let (flags, answers): (u16, u16) = if is_known { (0x8180, 1) } else { (0x8183, 0) };
    let mut answer = question[..2].to_vec();
    for number in [flags, 1, answers, 0, 0] {
        answer.extend_from_slice(&number.to_be_bytes());
    }
    answer.extend_from_slice(&question[12..]);
    if is_known {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend_from_slice(&HOST);
    }
    answer
}
