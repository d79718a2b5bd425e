//! ISAKMP messages as IKEv1 uses them (RFC 2408, 2407, 2409, 3706, 3947; mode config as in
//! draft-dukes-ike-mode-cfg-02; fragments as Cisco and strongSwan speak them).
//!
//! Left out: the encryption of a message body (`engine::ikev1` decrypts, then hands the clear
//! body to [`payloads`]), and every judgement of what a payload means.

mod attribute;
mod config;
mod fragment;
mod header;
mod id;
mod notify;
mod payload;
mod sa;
pub mod vendor;

pub use attribute::{Attribute, AttributeValue};
pub use config::{ConfigAttributes, ConfigKind, ConfigType};
pub use fragment::Fragment;
pub use header::{Cookie, Cookies, Exchange, Flags, HEADER_LEN, Header};
pub use id::{Identification, IdentificationType};
pub use notify::{Delete, Notify, NotifyType};
pub use payload::{Located, Payload, PayloadKind, payloads, write_payloads};
pub use sa::{Proposal, ProtocolId, SaPayload, Transform};
