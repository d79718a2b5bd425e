//! The dialogues of stations and access points, and of both ends of TLS, with the time that each
//! end computes, and what frames of a cipher cost.

use std::collections::BTreeMap;

use crate::cost::{Device, Direction};
use crate::exchange::Exchange;
use crate::kernel::cpu::PacketCosts;
use crate::kernel::dialogue::{Script, Step};
use crate::kernel::host::stack::Security;
use crate::scenario::{Access, Catalogue, Kind, Node, Role, Scenario, Tls, Uncomputable};

/// The dialogues of all stations, by station and access point, and the first operation without a
/// cost.
#[expect(clippy::type_complexity, reason = "used once")]
pub(super) fn dialogues(
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<(BTreeMap<(usize, usize), Script>, Option<String>), Uncomputable> {
    let mut all = BTreeMap::new();
    let mut unpriced = None;
    for access in &scenario.wireless.access {
        let script = script(access, scenario, catalogue, &mut unpriced)?;
        all.insert((access.station, access.access_point), script);
    }
    Ok((all, unpriced))
}

/// The messages of an access, with the work of both ends.
pub(crate) fn script(
    access: &Access,
    scenario: &Scenario,
    catalogue: &Catalogue,
    unpriced: &mut Option<String>,
) -> Result<Script, Uncomputable> {
    let device = |node: &Node| device(node, scenario, catalogue);
    let point = &scenario.nodes[access.access_point];
    let server = scenario
        .nodes
        .iter()
        .find(|it| Some(&it.name) == point.radius.as_ref());
    let station = device(&scenario.nodes[access.station])?;
    let (server, point) = (device(server.unwrap_or(point))?, device(point)?);
    let mut steps = Vec::new();
    for method in &access.methods {
        // The scenario has checked that it is there.
        let Some(entry) = catalogue.find(Kind::Exchange, method) else {
            continue;
        };
        let exchange = Exchange::parse(&entry.file, &entry.text)?;
        for message in &exchange.messages {
            let Some(bytes) = message.bytes else {
                let what = format!(
                    "'{method}' has a message without a size: '{}'",
                    message.says
                );
                return Err(scenario.fault(&["policy", "layer"], what).into());
            };
            let other = match message.relayed {
                Some(_) => &server,
                None => &point,
            };
            let mut seconds = |device: &Option<Device>, work| spent(device, work, unpriced);
            steps.push(Step {
                is_from_station: message.is_from_node,
                frame_bytes: bytes - message.framing,
                relayed_bytes: message.relayed,
                station_s: seconds(&station, &message.work),
                server_s: seconds(other, &message.peer_work),
            });
        }
    }
    Ok(steps.into())
}

fn device(
    node: &Node,
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<Option<Device>, Uncomputable> {
    let computer = node.computer.as_ref();
    let device = computer.map(|computer| scenario.device(&node.name, computer, catalogue));
    Ok(device.transpose()?)
}

/// Both ends of each flow in TLS, that of the station first, by the flow's index.
pub(super) fn securities(
    scenario: &Scenario,
    catalogue: &Catalogue,
    unpriced: &mut Option<String>,
) -> Result<BTreeMap<usize, [Security; 2]>, Uncomputable> {
    let all = scenario.transport.iter().map(|transport| {
        let ends = scenario.flows[transport.flow].ends();
        let tls = &transport.tls;
        let mut devices = [None, None];
        for (found, node) in devices.iter_mut().zip([ends.0, ends.1]) {
            *found = device(&scenario.nodes[node], scenario, catalogue)?;
        }
        let script = handshake(tls, &devices, catalogue, unpriced)?;
        if script.is_empty() {
            let what = format!("'{}' has no message with a stream in TCP", tls.method);
            return Err(scenario.fault(&["policy", "layer"], what).into());
        }
        let mut end = |device: &Option<Device>, is_client| Security {
            script: script.clone(),
            records: tls.records,
            record_bytes: tls.record_bytes,
            costs: records(device, tls, unpriced),
            is_client,
        };
        let both = [end(&devices[0], true), end(&devices[1], false)];
        Ok((transport.flow, both))
    });
    all.collect()
}

/// The flights of a handshake.
fn handshake(
    tls: &Tls,
    devices: &[Option<Device>; 2],
    catalogue: &Catalogue,
    unpriced: &mut Option<String>,
) -> Result<Script, Uncomputable> {
    // The scenario has checked that it is there.
    let entry = catalogue.find(Kind::Exchange, &tls.method);
    let exchange = entry.map(|entry| Exchange::parse(&entry.file, &entry.text));
    let exchange = exchange.transpose()?;
    let flights = exchange.iter().flat_map(Exchange::flights);
    let steps = flights.map(|message| Step {
        is_from_station: message.is_from_node,
        frame_bytes: message.stream.unwrap_or_default(),
        relayed_bytes: None,
        station_s: spent(&devices[0], &message.work, unpriced),
        server_s: spent(&devices[1], &message.peer_work, unpriced),
    });
    Ok(steps.collect())
}

/// Seconds of a record; none if they have no source, which is noted.
fn records(device: &Option<Device>, tls: &Tls, unpriced: &mut Option<String>) -> PacketCosts {
    let mut cost = |direction| {
        let price = device.as_ref().map(|it| it.record(&tls.records, direction));
        price.transpose().unwrap_or_else(|missing| {
            unpriced.get_or_insert_with(|| missing.to_string());
            None
        })
    };
    PacketCosts {
        seal: cost(Direction::Seal).unwrap_or_default(),
        open: cost(Direction::Open).unwrap_or_default(),
    }
}

/// Seconds of operations; those without a cost take none, and the first is noted.
fn spent(device: &Option<Device>, work: &[String], unpriced: &mut Option<String>) -> f64 {
    let Some(device) = device else {
        return 0.0;
    };
    let each = work.iter().map(|name| match device.operation(name) {
        Ok(seconds) => seconds,
        Err(missing) => {
            unpriced.get_or_insert_with(|| missing.to_string());
            0.0
        }
    });
    each.sum()
}

/// Seconds of a frame at a station or an access point; none: its link has no cipher, its hardware
/// ciphers, or it computes in no time. What they leave out is noted.
pub(super) fn frames(
    (index, node): (usize, &Node),
    scenario: &Scenario,
    catalogue: &Catalogue,
    left_out: &mut Option<String>,
) -> Result<Option<PacketCosts>, Uncomputable> {
    let links = scenario.links.iter().enumerate();
    let mut links = links.filter(|(_, joint)| match node.role {
        Role::AccessPoint => joint.far == index,
        _ => joint.near.contains(&index),
    });
    let cipher = links.find_map(|(link, _)| scenario.wireless.cipher(link));
    let (Some(cipher), Some(computer)) = (cipher, &node.computer) else {
        return Ok(None);
    };
    if node.ciphers_in_hardware {
        return Ok(None);
    }
    let device = scenario.device(&node.name, computer, catalogue)?;
    let mut cost = |direction| {
        let cost = device.frame(cipher, direction);
        let cost = cost.map_err(|missing| scenario.unpriced((&node.name, index), missing));
        let (seconds, missing) = cost?;
        if let Some(missing) = missing {
            left_out.get_or_insert_with(|| format!("{}: {missing}", node.name));
        }
        Ok::<_, Uncomputable>(seconds)
    };
    Ok(Some(PacketCosts {
        seal: cost(Direction::Seal)?,
        open: cost(Direction::Open)?,
    }))
}
