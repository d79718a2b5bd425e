//! Sends a gateway's clients to another gateway (RFC 5685), at the user's request. A gateway that
//! is this one, or that nobody can reach, is refused: clients would be sent in a circle, or away
//! from the only gateway that serves them.

use std::net::IpAddr;
use std::sync::Arc;

use engine::config::Connection;
use engine::identity::Identity;
use engine::node::{Command, Input};
use wire::ikev2::Gateway;

use super::Process;
use crate::control::Reply;

impl Process {
    /// Peers go to another gateway, or stay. `leads_to`: what the other gateway's name means here,
    /// as far as it means anything.
    pub(super) async fn send_elsewhere(
        &mut self,
        connection: &str,
        to: Option<String>,
        leads_to: &[IpAddr],
    ) -> anyhow::Result<Reply> {
        let all = &self.loaded.engine.connections;
        let waits = |it: &&Arc<Connection>| it.remote_addrs.is_empty() && it.version.has_v2();
        let gateways: Vec<_> = all.iter().filter(waits).collect();
        if !gateways.iter().any(|it| it.name == connection) {
            let text = format!("{connection} is no gateway's connection of IKEv2");
            return Ok(Reply::Failed { text });
        }
        let Some(to) = to else {
            self.input(Input::Command(Command::Drain(None))).await?;
            let text = "clients are served again".to_owned();
            return Ok(Reply::Done { text });
        };
        let names = gateways.iter().map(|it| &it.local.identity);
        let gateway = match other_gateway(&to, leads_to, self.host.own(), names) {
            Ok(gateway) => gateway,
            Err(text) => return Ok(Reply::Failed { text }),
        };
        let now = self.clock.now();
        self.input(Input::Command(Command::Drain(Some(gateway))))
            .await?;
        let status = self.node.status(now);
        let sessions: usize = status.connections.iter().map(|it| it.sessions.len()).sum();
        let connected = match sessions {
            1 => "1 is connected".to_owned(),
            some => format!("{some} are connected"),
        };
        let text = format!(
            "clients that can go elsewhere are sent to {to}: {connected}; the others \
             are served as before, and all of them after `caravan drain {connection} --off`"
        );
        Ok(Reply::Done { text })
    }
}

/// The gateway of this address or name. A name that leads to none of our addresses, or nowhere, is
/// taken: what it means is for the client to find out.
fn other_gateway<'a>(
    to: &str,
    leads_to: &[IpAddr],
    own: &[IpAddr],
    mut names: impl Iterator<Item = &'a Identity>,
) -> Result<Gateway, String> {
    const OTHER: &str = "name the gateway that takes over";
    if let Ok(address) = to.parse::<IpAddr>() {
        let address = address.to_canonical();
        if !is_reached(address) {
            return Err(format!("{address} is no address of another host: {OTHER}"));
        }
        if own.contains(&address) {
            return Err(format!("{address} is an address of this gateway: {OTHER}"));
        }
        return Ok(Gateway::Address(address));
    }
    if !is_name(to) {
        return Err(format!(
            "{to:?} is neither an address nor the name of a host"
        ));
    }
    let wanted = Identity::Fqdn(to.trim_end_matches('.').to_owned());
    if names.any(|it| it.is_same(&wanted)) {
        return Err(format!("{to} is the name of this gateway itself: {OTHER}"));
    }
    let is_own = |it: &IpAddr| own.contains(it) || !is_reached(*it);
    if !leads_to.is_empty() && leads_to.iter().all(is_own) {
        let first = leads_to[0];
        return Err(format!("{to} leads to this gateway, at {first}: {OTHER}"));
    }
    Ok(Gateway::Fqdn(to.to_owned()))
}

/// Whether a host elsewhere can have an address, and clients reach it there.
fn is_reached(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !is_local && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

/// Octets of a name at most (RFC 1035 §2.3.4).
const NAME_MAX: usize = 255;

/// Whether a text can be the name of a host.
fn is_name(text: &str) -> bool {
    let is_of_names = |it: char| it.is_ascii_alphanumeric() || "-.".contains(it);
    // Without a letter at its end it is an address with a mistake in it.
    let last = text.trim_end_matches('.').rsplit('.').next();
    let has_letter = last.is_some_and(|it| it.contains(|c: char| c.is_ascii_alphabetic()));
    has_letter && text.len() <= NAME_MAX && text.chars().all(is_of_names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_has_a_name_or_an_address() {
        assert!(is_name("sg-2.example"));
        for bad in [
            "",
            "a b",
            "gâteau",
            "x/24",
            "300.1.1.1",
            &"a".repeat(NAME_MAX + 1),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn clients_are_not_sent_to_the_gateway_where_they_are() {
        let own: [IpAddr; 2] = ["192.0.2.1", "2001:db8::1"].map(|it| it.parse().unwrap());
        let other: IpAddr = "192.0.2.7".parse().unwrap();
        let name = Identity::parse("sg.example").expect("an identity");
        let to = |to: &str, leads_to: &[IpAddr]| {
            other_gateway(to, leads_to, &own, [&name].into_iter()).map_err(|text| {
                assert!(text.contains(to) || text.contains("192.0.2.1"), "{text}");
                text.split(':').next_back().unwrap_or_default().to_owned()
            })
        };
        assert_eq!(to("192.0.2.7", &[]), Ok(Gateway::Address(other)));
        assert_eq!(to("::ffff:192.0.2.7", &[]), Ok(Gateway::Address(other)));
        let named = |name: &str| Ok(Gateway::Fqdn(name.to_owned()));
        assert_eq!(to("sg2.example", &[]), named("sg2.example"));
        assert_eq!(to("sg2.example", &[own[0], other]), named("sg2.example"));
        let refused = Err(" name the gateway that takes over".to_owned());
        for bad in [
            "192.0.2.1",
            "::ffff:192.0.2.1",
            "2001:db8::1",
            "127.0.0.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "224.0.0.1",
            "SG.example",
            "sg.example.",
        ] {
            assert_eq!(to(bad, &[]), refused, "{bad}");
        }
        assert_eq!(to("alias.example", &own), refused);
        let hosts_file: IpAddr = "127.0.1.1".parse().unwrap();
        assert_eq!(to("alias.example", &[hosts_file]), refused);
    }
}
