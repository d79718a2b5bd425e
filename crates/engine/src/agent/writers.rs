//! Texts by which other implementations build one end of a tunnel and take it down again: files,
//! commands to construct and commands to destroy, from one [`Description`].
//!
//! The paper's agents need no change in any implementation of IPsec: they write its configuration
//! and run its commands. Those of its time are here too, marked as historical. Each writer says
//! what its implementation cannot do, with a reason, before anything is written.
//!
//! Nothing that comes from the other end is put into a text as it is: names and suites are parsed
//! ([`super::description`]), suites are written in the implementation's own words, and every text
//! is quoted all the same. Left out: what a machine must have besides (a running charon, pluto or
//! iked), and IKEv2 of Windows and racoon2.

mod caravan;
mod freeswan;
mod ipseccmd;
mod libreswan;
mod manual;
mod quote;
mod racoon;
mod racoon2;
mod setkey;
mod strongswan;
mod texts;
mod windows;
mod words;
mod xfrm;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::description::Description;
use super::ike::{IkeAbilities, IkeVersion};
use super::objectives::{Options, SecurityOption};

pub use caravan::{Places, toml};
pub use libreswan::leftovers;
pub use quote::powershell_string;
pub use strongswan::{Charon, Vici, Wiped, ppk_name, vici};
pub use texts::{Order, TextFile, Texts};

/// An implementation of IPsec that texts are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Caravan: TOML.
    Caravan,
    /// strongSwan: swanctl.conf.
    StrongSwan,
    /// Libreswan: ipsec.conf and `ipsec auto`.
    Libreswan,
    /// Linux: `ip xfrm`, with keys of the session key.
    Xfrm,
    /// FreeBSD: `setkey`, with keys of the session key.
    Setkey,
    /// FreeBSD: racoon2.
    Racoon2,
    /// Windows: PowerShell, `New-NetIPsecRule`.
    Windows,
    /// Windows XP: `ipseccmd`, dynamic mode.
    Ipseccmd,
    /// Windows 2000: `ipsecpol`, dynamic mode.
    Ipsecpol,
    /// FreeS/WAN 2: ipsec.conf and `ipsec auto`.
    FreeSwan,
    /// KAME: racoon.conf and `setkey`.
    Racoon,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Caravan,
        Self::StrongSwan,
        Self::Libreswan,
        Self::Xfrm,
        Self::Setkey,
        Self::Racoon2,
        Self::Windows,
        Self::Ipseccmd,
        Self::Ipsecpol,
        Self::FreeSwan,
        Self::Racoon,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Caravan => "caravan",
            Self::StrongSwan => "strongswan",
            Self::Libreswan => "libreswan",
            Self::Xfrm => "ip-xfrm",
            Self::Setkey => "setkey",
            Self::Racoon2 => "racoon2",
            Self::Windows => "windows",
            Self::Ipseccmd => "ipseccmd",
            Self::Ipsecpol => "ipsecpol",
            Self::FreeSwan => "freeswan",
            Self::Racoon => "racoon",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether nobody should run it any more: the paper's originals.
    pub const fn is_historical(self) -> bool {
        matches!(
            self,
            Self::Ipseccmd | Self::Ipsecpol | Self::FreeSwan | Self::Racoon
        )
    }

    /// Whether it agrees on keys with the other end by itself.
    pub const fn has_ike(self) -> bool {
        !matches!(self, Self::Xfrm | Self::Setkey)
    }

    /// Where its files are by default.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Caravan => "/etc/caravan/tunnels",
            Self::StrongSwan => "/etc/swanctl",
            Self::Libreswan => "/etc/ipsec.d",
            Self::Xfrm => "/run/caravan-agent",
            Self::Setkey => "/var/run/caravan-agent",
            Self::Racoon2 => "/usr/local/etc/racoon2",
            Self::Windows => "C:\\ProgramData\\caravan-agent",
            Self::Ipseccmd | Self::Ipsecpol => "C:\\caravan-agent",
            Self::FreeSwan => "/etc/ipsec.d",
            Self::Racoon => "/usr/local/etc/racoon",
        }
    }

    /// What it can do at all.
    pub fn options(self) -> Options {
        let all = SecurityOption::ALL.into_iter();
        all.filter(|option| self.lacks(*option).is_none()).collect()
    }

    /// What it can do in IKE, as its texts say it. Without IKE there is nothing to agree on.
    pub fn ike(self) -> IkeAbilities {
        match self {
            Self::Caravan | Self::StrongSwan | Self::Libreswan => IkeAbilities::ALL,
            Self::Xfrm | Self::Setkey => IkeVersion::ALL.into_iter().collect(),
            Self::Racoon2
            | Self::Windows
            | Self::Ipseccmd
            | Self::Ipsecpol
            | Self::FreeSwan
            | Self::Racoon => [IkeVersion::V1].into_iter().collect(),
        }
    }

    /// Why it cannot do an option.
    pub const fn lacks(self, option: SecurityOption) -> Option<&'static str> {
        match (self, option) {
            (Self::StrongSwan, SecurityOption::AhEsp) => {
                Some("a child of strongSwan has proposals of ESP or of AH, not of both")
            }
            (Self::Libreswan, SecurityOption::AhEsp) => {
                Some("a connection of Libreswan has phase2=esp or phase2=ah, not both")
            }
            (Self::FreeSwan, SecurityOption::Ah) => {
                Some("FreeS/WAN negotiates AH only around ESP (auth=ah)")
            }
            _ => None,
        }
    }
}

/// Why a text cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteFault {
    /// The implementation cannot do the option.
    #[error("{} cannot do {option}: {why}", kind.name())]
    Option {
        /// The implementation.
        kind: Kind,
        /// The option.
        option: SecurityOption,
        /// Why.
        why: &'static str,
    },
    /// Its texts have another version of IKE alone.
    #[error(
        "{} has no {version} here: Target's file needs version = {}",
        kind.name(),
        3 - version.number()
    )]
    Version {
        /// The implementation.
        kind: Kind,
        /// The version.
        version: IkeVersion,
    },
    /// None of the suites is the implementation's.
    #[error("{} knows none of these {what} suites: {offered}", kind.name())]
    Suite {
        /// The implementation.
        kind: Kind,
        /// Of which protocol.
        what: &'static str,
        /// What the description has.
        offered: String,
    },
    /// Something is missing that the implementation needs.
    #[error("{} needs {what}", kind.name())]
    Needs {
        /// The implementation.
        kind: Kind,
        /// What is missing.
        what: &'static str,
    },
    /// A text that the implementation has no quotes for.
    #[error("{text:?} cannot be {what} of {}", kind.name())]
    Text {
        /// The implementation.
        kind: Kind,
        /// What it was for.
        what: &'static str,
        /// The text.
        text: String,
    },
}

/// Texts for files in the implementation's own folder.
pub fn write(kind: Kind, description: &Description) -> Result<Texts, WriteFault> {
    write_in(kind, description, kind.folder())
}

/// Texts for files in another folder.
pub fn write_in(kind: Kind, description: &Description, folder: &str) -> Result<Texts, WriteFault> {
    if let Some(why) = kind.lacks(description.option) {
        let option = description.option;
        return Err(WriteFault::Option { kind, option, why });
    }
    let is_native = description.option == SecurityOption::Native;
    if !is_native && !kind.ike().has(description.ike) {
        let version = description.ike;
        return Err(WriteFault::Version { kind, version });
    }
    let description = &*meant(description);
    if description.ppk.is_some() && !kind.ike().has_ppk() {
        let what = "a tunnel without a post-quantum pre-shared key";
        return Err(WriteFault::Needs { kind, what });
    }
    quote::path(kind, folder)?;
    match kind {
        Kind::Caravan => Ok(caravan::write(description, folder)),
        Kind::StrongSwan => strongswan::write(description, folder),
        Kind::Libreswan => libreswan::write(description, folder),
        Kind::Xfrm => xfrm::write(description, folder),
        Kind::Setkey => setkey::write(description, folder),
        Kind::Racoon2 => racoon2::write(description, folder),
        Kind::Windows => windows::write(description, folder),
        Kind::Ipseccmd | Kind::Ipsecpol => ipseccmd::write(kind, description, folder),
        Kind::FreeSwan => freeswan::write(description, folder),
        Kind::Racoon => racoon::write(description, folder),
    }
}

/// Unprotected traffic has no IKE, and so no post-quantum pre-shared key: none is written.
fn meant(description: &Description) -> Cow<'_, Description> {
    match (description.option, &description.ppk) {
        (SecurityOption::Native, Some(_)) => Cow::Owned(Description {
            ppk: None,
            ..description.clone()
        }),
        _ => Cow::Borrowed(description),
    }
}
