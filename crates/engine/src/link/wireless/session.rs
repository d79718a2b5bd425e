//! Why EAP's key is not taken.

/// Why the key of an EAP exchange is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionFault {
    /// The keys of this network are not of EAP.
    #[error("this network takes no key of EAP: that is for dynamic WEP and IEEE 802.1X")]
    NotOfEap,
    /// There is no such peer.
    #[error("the station has not joined")]
    NotJoined,
    /// Too few octets.
    #[error("the key of EAP is too short: 64 octets are needed, EAP-MD5 has none")]
    Short,
}
