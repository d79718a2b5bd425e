//! Identities and traffic selectors in IKEv1's form: both are Identification payloads, one in phase
//! 1, the other in quick mode (RFC 2407 §4.6.2).

use crypto::cert::DistinguishedName;
use wire::codec::Malformed;
use wire::isakmp::{Identification, IdentificationType};

use crate::identity::{Identity, MAX_LEN, is_graphic};
use crate::selector::{Ports, TrafficSelector};

impl Identity {
    /// Reads the identity of an ID payload of phase 1.
    pub fn from_identification(id: &Identification) -> Result<Self, Malformed> {
        if id.value.is_empty() || id.value.len() > MAX_LEN {
            return Err(Malformed::Length("identity"));
        }
        let text = || {
            let text = core::str::from_utf8(&id.value).ok();
            text.filter(|text| is_graphic(text))
                .map(str::to_owned)
                .ok_or(Malformed::Value("identity"))
        };
        match id.kind {
            IdentificationType::Ipv4Addr | IdentificationType::Ipv6Addr => id
                .to_address()
                .map(Self::Address)
                .ok_or(Malformed::Length("identity")),
            IdentificationType::Fqdn => text().map(Self::Fqdn),
            IdentificationType::UserFqdn => text().map(Self::UserFqdn),
            IdentificationType::DerAsn1Dn => {
                let name = DistinguishedName::from_der(&id.value);
                // A certificate without a subject has an empty name, which identifies nobody.
                name.ok()
                    .filter(|name| !name.is_empty())
                    .map(|_| Self::DistinguishedName(id.value.clone()))
                    .ok_or(Malformed::Value("distinguished name"))
            }
            IdentificationType::KeyId => Ok(Self::KeyId(id.value.clone())),
            _ => Err(Malformed::Value("identification type")),
        }
    }

    /// Writes it as an ID payload of phase 1, with protocol and port 0 (RFC 2407 §4.6.2).
    pub fn to_identification(&self) -> Identification {
        let (kind, value) = match self {
            Self::Address(address) => return Identification::address(*address),
            Self::Fqdn(name) => (IdentificationType::Fqdn, name.as_bytes()),
            Self::UserFqdn(name) => (IdentificationType::UserFqdn, name.as_bytes()),
            Self::DistinguishedName(der) => (IdentificationType::DerAsn1Dn, der.as_slice()),
            Self::KeyId(octets) => (IdentificationType::KeyId, octets.as_slice()),
        };
        Identification::of(kind, value)
    }
}

impl TrafficSelector {
    /// Reads a quick-mode ID payload. `None` for other kinds, non-contiguous masks, unordered
    /// ranges, and a port without its protocol.
    pub fn from_identification(id: &Identification) -> Option<Self> {
        let (first, last) = id.to_range()?;
        (id.protocol != 0 || id.port == 0).then_some(Self {
            first,
            last,
            protocol: id.protocol,
            ports: Ports::of_ikev1(id.port),
        })
    }

    /// Writes it as a quick-mode ID payload, in the shortest form: address, subnet or range. A
    /// range of ports has no such form, and a configuration with one is refused; any port stands
    /// for it.
    pub fn to_identification(&self) -> Identification {
        let id = if self.first == self.last {
            Identification::address(self.first)
        } else if let Some(bits) = self.prefix_len() {
            Identification::subnet(self.first, bits)
        } else {
            // A range of two families is not a selector; its first address replaces it.
            Identification::range(self.first, self.last)
                .unwrap_or_else(|| Identification::address(self.first))
        };
        id.with_port(self.protocol, self.ports.to_ikev1().unwrap_or(0))
    }
}
