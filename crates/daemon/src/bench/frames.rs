//! Measures every cipher of wireless links through the engine's ports, from a station to its access
//! point.

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Wall};

use engine::link::wireless::{LinkCipher, MAX_GROWTH, Port, Privacy, Role, TemporalKey};
use engine::time::Instant;
use wire::ieee80211::{Address, ETHERNET_LEN};

use super::{Costs, Stopwatch};

/// Octets of the IP packet in a frame.
const SIZES: [usize; 3] = [64, 480, 1400];
/// Frames of one batch.
const BATCH: usize = 64;
const STATION: Address = Address([2, 0, 0, 0, 0, 1]);
const ACCESS_POINT: Address = Address([2, 0, 0, 0, 0, 2]);
/// EtherType of IPv4.
const IPV4: [u8; 2] = [8, 0];

pub(super) fn measure(stopwatch: &Stopwatch) -> BTreeMap<String, Costs> {
    let each = LinkCipher::ALL.into_iter();
    each.map(|cipher| (cipher.name().to_owned(), costs(cipher, stopwatch)))
        .collect()
}

fn costs(cipher: LinkCipher, stopwatch: &Stopwatch) -> Costs {
    let mut costs = Costs::new();
    for size in SIZES {
        let mut ends = Ends::new(cipher, size);
        let protect = stopwatch.median_ns(|| (ends.protect(), BATCH));
        let unprotect = stopwatch.median_ns(|| {
            ends.protect();
            (ends.unprotect(), BATCH)
        });
        costs.insert(format!("protect_ns_{size}"), protect);
        costs.insert(format!("unprotect_ns_{size}"), unprotect);
    }
    costs
}

/// Both ends of a link, and the frames between them.
struct Ends {
    station: Port,
    access_point: Port,
    frame: Vec<u8>,
    air: Vec<Vec<u8>>,
}

impl Ends {
    fn new(cipher: LinkCipher, size: usize) -> Self {
        let permitted = cipher.permit(true).expect("all are measured");
        let octets: Vec<u8> = (0..cipher.key_len()).map(|n| (n * 37 + 11) as u8).collect();
        let key = TemporalKey::new(permitted, &octets).expect("of its length");
        let mut station = Port::new(Role::Station(ACCESS_POINT), STATION, Privacy::Protected);
        let mut access_point = Port::new(Role::AccessPoint, ACCESS_POINT, Privacy::Protected);
        access_point.join(STATION);
        station.install_pairwise(ACCESS_POINT, &key);
        access_point.install_pairwise(STATION, &key);
        let mut frame = [ACCESS_POINT.0, STATION.0].concat();
        frame.extend(IPV4);
        frame.resize(ETHERNET_LEN + size, 0x5a);
        Self {
            station,
            access_point,
            frame,
            air: Vec::new(),
        }
    }

    fn protect(&mut self) -> Duration {
        let room = self.frame.len() + MAX_GROWTH;
        let mut air: Vec<Vec<u8>> = vec![vec![0; room]; BATCH];
        let start = Wall::now();
        for octets in &mut air {
            let len = self.station.protect(&self.frame, octets);
            octets.truncate(len.expect("every cipher protects"));
        }
        let took = start.elapsed();
        self.air = air;
        took
    }

    /// Takes the protection off the last frames, and consumes them.
    fn unprotect(&mut self) -> Duration {
        let start = Wall::now();
        for octets in &mut self.air {
            let opened = self.access_point.unprotect(octets, Instant(1));
            assert!(opened.is_ok(), "every cipher opens what it protected");
        }
        let took = start.elapsed();
        self.air.clear();
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_of_wireless_links_is_measured_at_every_size() {
        for cipher in LinkCipher::ALL {
            for size in SIZES {
                let mut ends = Ends::new(cipher, size);
                ends.protect();
                assert!(ends.air[0].len() > size + cipher.overhead());
                ends.unprotect();
            }
        }
    }
}
