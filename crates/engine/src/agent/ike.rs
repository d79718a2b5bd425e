//! What an end of a tunnel can do in IKE, and what both ends use: the best version that both have,
//! and a post-quantum pre-shared key of IKEv2 if both can.

use core::fmt;

/// A version of IKE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IkeVersion {
    /// RFC 2409.
    V1,
    /// RFC 7296.
    V2,
}

/// Versions, and whether there can be a PPK (RFC 8784): one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IkeAbilities(u8);

impl IkeVersion {
    /// Both, the better one first.
    pub const ALL: [Self; 2] = [Self::V2, Self::V1];

    /// Its number.
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The version of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }
}

impl fmt::Display for IkeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IKEv{}", self.number())
    }
}

impl IkeAbilities {
    const PPK: u8 = 4;
    /// Everything.
    pub const ALL: Self = Self(0b111);

    /// Of the number in a message; other bits do not count.
    pub const fn of_number(number: u8) -> Self {
        Self(number & Self::ALL.0)
    }

    /// The number for a message.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether there is this version.
    pub const fn has(self, version: IkeVersion) -> bool {
        self.0 & version.number() != 0
    }

    /// Whether there can be a PPK.
    pub const fn has_ppk(self) -> bool {
        self.0 & Self::PPK != 0
    }

    /// The same with a PPK or without one.
    pub const fn with_ppk(self, has_ppk: bool) -> Self {
        match has_ppk {
            true => Self(self.0 | Self::PPK),
            false => Self(self.0 & !Self::PPK),
        }
    }

    /// What both can do.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The best version.
    pub fn best(self) -> Option<IkeVersion> {
        IkeVersion::ALL.into_iter().find(|one| self.has(*one))
    }
}

/// Without a PPK.
impl FromIterator<IkeVersion> for IkeAbilities {
    fn from_iter<I: IntoIterator<Item = IkeVersion>>(list: I) -> Self {
        Self(list.into_iter().fold(0, |set, one| set | one.number()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_common_version_is_used() {
        let of = |list: &[IkeVersion]| list.iter().copied().collect::<IkeAbilities>();
        let (v1, v2) = (of(&[IkeVersion::V1]), of(&[IkeVersion::V2]));
        let both = of(&[IkeVersion::V1, IkeVersion::V2]);
        assert_eq!(both.common(both).best(), Some(IkeVersion::V2));
        assert_eq!(both.common(v1).best(), Some(IkeVersion::V1));
        assert_eq!(v2.common(v1).best(), None);
        assert_eq!(both.with_ppk(true), IkeAbilities::ALL);
        assert!(!IkeAbilities::ALL.common(both).has_ppk());
        assert_eq!(IkeAbilities::of_number(0xff).number(), 7);
    }
}
