//! ISAKMP messages as IKEv1 uses them (RFC 2408, 2407, 2409, 3706, 3947; mode config as in
//! draft-dukes-ike-mode-cfg-02; fragments as Cisco and strongSwan speak them).
//!
//! Left out: the encryption of a message body (`engine::ikev1` decrypts, then passes the clear body
//! to [`payloads`]), and the meaning of payloads.

mod config;
mod fragment;
mod header;
mod id;
mod later;
mod notify;
mod payload;
pub mod phase1;
pub mod phase2;
mod sa;
pub mod vendor;

pub use crate::attribute::{Attribute, AttributeValue, MAX_ATTRIBUTES};
pub use config::{ConfigAttributes, ConfigKind, ConfigType, XAUTH_KINDS};
pub use fragment::Fragment;
pub use header::{Cookie, Cookies, Exchange, Flags, HEADER_LEN, Header};
pub use id::{Identification, IdentificationType};
pub use later::{FirstOfIkev2, major_version};
pub use notify::{Delete, MAX_DELETED_SPIS, Notify, NotifyType};
pub use payload::{Located, MAX_PAYLOADS, Payload, PayloadKind, payloads, write_payloads};
pub use sa::{MAX_PROPOSALS, Proposal, ProtocolId, SaPayload, Transform};

#[cfg(test)]
mod tests;
