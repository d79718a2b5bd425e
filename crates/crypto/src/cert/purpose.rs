//! Extended key usage, as far as it admits IKE (RFC 4945 §5.1.3.12, RFC 5280 §4.2.1.12).
//!
//! An end entity and each intermediate authority above it need one common purpose that serves IKE:
//! an authority certified for TLS clients cannot issue gateways. RFC 5280 leaves an authority's
//! purposes open; CAs and TLS's path checks read it this way too. The purposes of a trust anchor
//! are ignored: it is trusted because it is configured.

use x509_parser::extensions::ExtendedKeyUsage;

/// The purposes of a certificate, one bit each: those of [`IKE_PURPOSES`], and TLS's two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Purposes(u8);

/// What a certificate for IKE may have besides anyExtendedKeyUsage: ipsecIKE (RFC 4945 §5.1.3.12),
/// the older ipsecEndSystem, ipsecTunnel, ipsecUser, and iKEIntermediate. Authorities also issue
/// certificates for IKE with TLS's two, serverAuth and clientAuth.
const IKE_PURPOSES: [&str; 5] = [
    "1.3.6.1.5.5.7.3.17",
    "1.3.6.1.5.5.7.3.5",
    "1.3.6.1.5.5.7.3.6",
    "1.3.6.1.5.5.7.3.7",
    "1.3.6.1.5.5.8.2.2",
];
const SERVER_AUTH: u8 = 1 << 5;
const CLIENT_AUTH: u8 = 1 << 6;

impl Purposes {
    /// The purposes that the extension lists.
    pub(super) fn of(listed: &ExtendedKeyUsage<'_>) -> Self {
        if listed.any {
            return Self::default();
        }
        let server = if listed.server_auth { SERVER_AUTH } else { 0 };
        let client = if listed.client_auth { CLIENT_AUTH } else { 0 };
        let others = listed.other.iter().filter_map(|oid| {
            let text = oid.to_id_string();
            IKE_PURPOSES.iter().position(|known| *known == text)
        });
        Self(others.fold(server | client, |all, bit| all | 1 << bit))
    }

    /// The purposes that both have.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether one of them serves IKE.
    pub(super) fn admit_ike(self) -> bool {
        self.0 != 0
    }
}

/// A certificate without the extension serves any purpose.
impl Default for Purposes {
    fn default() -> Self {
        Self(u8::MAX)
    }
}
