//! Measures every suite of the catalogue through the engine's planes, in tunnel mode over IPv4.

use std::collections::BTreeMap;
use std::time::Instant as Wall;

use crypto::rand::Seed;
use engine::plane::{
    Datagrams, InboundChange, InboundPlane, Offloads, OutboundChange, OutboundPlane,
};
use engine::plane::{Packets, Received};
use engine::sa::{ChildId, Direction, Ipsec, Keys, Layer, Mode, Path, Protocol, Sa, Secret};
use engine::selector::{Ports, TrafficSelector};
use engine::suite::EspSuite;
use engine::time::Instant;

use super::{Costs, Stopwatch};
use crate::capture::udp_packet;

/// Octets of the clear IP packet.
const SIZES: [usize; 3] = [64, 480, 1400];
/// Packets of one batch.
const BATCH: usize = 64;
const NOW: Instant = Instant(1);

pub(super) fn measure(stopwatch: &Stopwatch) -> BTreeMap<String, Costs> {
    let each = EspSuite::catalogue().into_iter();
    each.map(|suite| (suite.to_string(), costs(&suite, stopwatch)))
        .collect()
}

fn costs(suite: &EspSuite, stopwatch: &Stopwatch) -> Costs {
    let mut costs = Costs::new();
    for size in SIZES {
        let mut ends = Ends::new(suite);
        let clear = packet(size);
        let seal = stopwatch.median_ns(|| (ends.seal(&clear), BATCH));
        let open = stopwatch.median_ns(|| {
            ends.seal(&clear);
            (ends.open(), BATCH)
        });
        costs.insert(format!("seal_ns_{size}"), seal);
        costs.insert(format!("open_ns_{size}"), open);
    }
    costs
}

/// Both ends of one association.
struct Ends {
    sender: OutboundPlane,
    receiver: InboundPlane,
    sealed: Datagrams,
    opened: Packets,
}

impl Ends {
    fn new(suite: &EspSuite) -> Self {
        let offloads = Offloads {
            has_vnet_header: false,
            has_udp_segments: false,
        };
        let mut sender = OutboundPlane::new(Seed::new([7; 32]).stream("bench", 0), offloads);
        let mut receiver = InboundPlane::new(offloads);
        sender.apply(
            OutboundChange::Install(Box::new(sa(suite, Direction::Outbound))),
            NOW,
        );
        receiver.apply(InboundChange::Install(Box::new(sa(
            suite,
            Direction::Inbound,
        ))));
        Self {
            sender,
            receiver,
            sealed: Datagrams::new(),
            opened: Packets::new(),
        }
    }

    fn seal(&mut self, clear: &[u8]) -> std::time::Duration {
        let mut frames: Vec<Vec<u8>> = vec![clear.to_vec(); BATCH];
        self.sealed.clear();
        let start = Wall::now();
        for frame in &mut frames {
            self.sender.seal(frame, NOW, &mut self.sealed);
        }
        let took = start.elapsed();
        assert!(
            !self.sealed.is_empty(),
            "every suite of the catalogue seals"
        );
        took
    }

    /// Opens the packets sealed last, and consumes them.
    fn open(&mut self) -> std::time::Duration {
        let mut datagrams: Vec<(Path, Vec<u8>)> = Vec::with_capacity(BATCH);
        for run in self.sealed.runs() {
            let back = run.path.reversed();
            let each = self.sealed.bytes(run).chunks(run.segment_bytes);
            datagrams.extend(each.map(|bytes| (back, bytes.to_vec())));
        }
        self.opened.clear();
        let start = Wall::now();
        for (buffer, (path, bytes)) in datagrams.iter_mut().enumerate() {
            let received = Received {
                path: *path,
                traffic_class: 0,
                interface: 0,
                segment_bytes: bytes.len(),
                bytes,
            };
            self.receiver.open(buffer, received, NOW, &mut self.opened);
        }
        let took = start.elapsed();
        let opened = self.opened.writes().count();
        assert_eq!(
            opened, BATCH,
            "every suite of the catalogue opens what it sealed"
        );
        took
    }
}

fn sa(suite: &EspSuite, direction: Direction) -> Sa {
    let (here, there) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let path = match suite.protocol {
        Protocol::Esp => Path::udp_with_marker((here, 4500), (there, 4500)),
        Protocol::Ah => Path::raw(here.into(), there.into()),
    };
    let everything = || {
        vec![TrafficSelector {
            first: [0, 0, 0, 0].into(),
            last: [255, 255, 255, 255].into(),
            protocol: 0,
            ports: Ports::ANY,
        }]
    };
    let key = |len: usize| Secret((0..len).map(|n| (n * 37 + 11) as u8).collect());
    Sa {
        direction,
        child: ChildId(1),
        layer: Layer::Ipsec(Ipsec {
            protocol: suite.protocol,
            spi: 0x1000,
            protection: suite.protection,
            keys: Keys {
                encryption: key(suite.protection.encryption_key_len()),
                integrity: key(suite.protection.integrity_key_len()),
            },
        }),
        mode: Mode::Tunnel,
        has_esn: suite.has_esn,
        replay_window: if suite.protection.is_authenticated() {
            1024
        } else {
            0
        },
        path: match direction {
            Direction::Outbound => path,
            Direction::Inbound => path.reversed(),
        },
        local: everything(),
        remote: everything(),
        original: None,
        pool_address: None,
        soft_packets: u64::MAX,
        soft_bytes: u64::MAX,
        copies_df: true,
        path_mtu: 1600,
        is_nested: false,
        carried_by: None,
        removes_header: false,
        sent_on_from: None,
    }
}

/// An IPv4 UDP packet of `size` octets.
fn packet(size: usize) -> Vec<u8> {
    let from = ([10, 0, 0, 1], 1).into();
    let to = ([10, 0, 0, 2], 2).into();
    udp_packet(from, to, 0, &vec![0x5a; size - 28])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_of_the_catalogue_is_measured_at_every_size() {
        for suite in EspSuite::catalogue() {
            let mut ends = Ends::new(&suite);
            for size in SIZES {
                assert_eq!(packet(size).len(), size);
                ends.seal(&packet(size));
                ends.open();
            }
        }
    }
}
