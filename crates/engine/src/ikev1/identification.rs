//! Identities and traffic selectors as IKEv1 writes them: both are Identification payloads, one of
//! phase 1, the other of quick mode (RFC 2407 §4.6.2).

use crypto::cert::DistinguishedName;
use wire::codec::Malformed;
use wire::isakmp::{Identification, IdentificationType};

use crate::identity::{Identity, MAX_LEN, is_graphic};
use crate::selector::TrafficSelector;

impl Identity {
    /// What an ID payload of phase 1 says.
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
                // An empty one is in every certificate that has no subject, and names nobody.
                name.ok()
                    .filter(|name| !name.is_empty())
                    .map(|_| Self::DistinguishedName(id.value.clone()))
                    .ok_or(Malformed::Value("distinguished name"))
            }
            IdentificationType::KeyId => Ok(Self::KeyId(id.value.clone())),
            _ => Err(Malformed::Value("identification type")),
        }
    }

    /// As an ID payload of phase 1, with protocol and port 0 (RFC 2407 §4.6.2).
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
    /// What a quick-mode ID payload says; `None` for other kinds, masks with holes, ranges out
    /// of order, and a port without the protocol it belongs to.
    pub fn from_identification(id: &Identification) -> Option<Self> {
        let (first, last) = id.to_range()?;
        (id.protocol != 0 || id.port == 0).then_some(Self {
            first,
            last,
            protocol: id.protocol,
            port: id.port,
        })
    }

    /// As a quick-mode ID payload: the shortest of address, subnet and range that says it.
    pub fn to_identification(&self) -> Identification {
        let id = if self.first == self.last {
            Identification::address(self.first)
        } else if let Some(bits) = self.prefix_len() {
            Identification::subnet(self.first, bits)
        } else {
            // A range of two families is no selector; its first address stands for it.
            Identification::range(self.first, self.last)
                .unwrap_or_else(|| Identification::address(self.first))
        };
        id.with_port(self.protocol, self.port)
    }
}
