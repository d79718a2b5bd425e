//! The device of a stack: packets in memory.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::HardwareAddress;

pub(super) struct Device {
    pub(super) mtu: usize,
    pub(super) incoming: VecDeque<Vec<u8>>,
    pub(super) outgoing: Vec<Vec<u8>>,
}

pub(super) fn interface(device: &mut Device, seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    Interface::new(config, device, Micros::ZERO)
}

impl smoltcp::phy::Device for Device {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Micros) -> Option<(Incoming, Outgoing<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Incoming(packet), Outgoing(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Micros) -> Option<Outgoing<'_>> {
        Some(Outgoing(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

pub(super) struct Incoming(Vec<u8>);

pub(super) struct Outgoing<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}
