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

    /// Writes it as a quick-mode ID payload, in the shortest form: address, subnet or range. No
    /// other selector stands for one that has no such form: it would have more traffic.
    pub fn to_identification(&self) -> Result<Identification, NoIkev1Form> {
        let port = self.ports.to_ikev1().ok_or(NoIkev1Form::Ports(*self))?;
        let id = if self.first == self.last {
            Identification::address(self.first)
        } else if let Some(bits) = self.prefix_len() {
            Identification::subnet(self.first, bits)
        } else {
            Identification::range(self.first, self.last).ok_or(NoIkev1Form::Families(*self))?
        };
        Ok(id.with_port(self.protocol, port))
    }
}

/// Why IKEv1 cannot say a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoIkev1Form {
    /// It has some ports. A configuration with such a one is refused.
    #[error("IKEv1 has no ranges of ports: {0}")]
    Ports(TrafficSelector),
    /// Its first address is of another family than its last.
    #[error("the addresses of a selector are of two families: {0}")]
    Families(TrafficSelector),
}
