//! The links that a host had when its steward started. A packet filter leaves those alone that its
//! file does not name. A link that comes later is none of them, and so is one that was renamed: it
//! may lead outside.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use nix::net::if_::if_nameindex;

use crate::interfaces::entries;

/// Names of links.
#[derive(Clone, Debug, Default)]
pub struct Links(BTreeSet<String>);

impl Links {
    /// Those of this host now, but none that has this address. Where none has it, nobody knows yet
    /// which one it will be on, and so there are none.
    pub fn now(without: Option<Ipv4Addr>) -> nix::Result<Self> {
        let mut is_found = without.is_none();
        let names = if_nameindex()?;
        let names = names.iter().filter_map(|it| it.name().to_str().ok());
        let mut links: BTreeSet<String> = names.filter(|it| is_plain(it)).map(Into::into).collect();
        for one in entries()? {
            if without.is_some() && one.v4() == without {
                links.remove(&one.interface);
                is_found = true;
            }
        }
        if !is_found {
            links.clear();
        }
        Ok(Self(links))
    }

    /// These.
    pub fn of(names: &[String]) -> Self {
        Self(names.iter().cloned().collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words of a rule that is about these links and others, as nft writes a set.
    pub fn set(&self, also: &[&str], but: &[String]) -> String {
        let own = self.0.iter().filter(|it| !but.contains(it));
        let all: BTreeSet<&str> = own
            .map(String::as_str)
            .chain(also.iter().copied())
            .collect();
        let quoted: Vec<String> = all.iter().map(|name| format!("\"{name}\"")).collect();
        format!("{{ {} }}", quoted.join(", "))
    }
}

/// Whether nft takes the name for nothing but a name.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_the_address_outside_is_not_trusted() {
        let local = Ipv4Addr::LOCALHOST;
        let all = Links::now(None).expect("links");
        let others = Links::now(Some(local)).expect("links");
        assert!(all.0.contains("lo") && !others.0.contains("lo"), "{all:?}");
        let nowhere = Ipv4Addr::new(192, 0, 2, 1);
        assert!(Links::now(Some(nowhere)).expect("links").is_empty());
    }

    #[test]
    fn a_set_has_each_link_once_and_none_that_it_must_not_have() {
        let links = Links::of(&["eth0", "eth1", "lo"].map(str::to_owned));
        let set = links.set(&["lo", "tun0"], &["eth0".to_owned()]);
        assert_eq!(set, "{ \"eth1\", \"lo\", \"tun0\" }");
        assert!(!is_plain("a\"b") && !is_plain("a b") && is_plain("br-1@x.7"));
    }
}
