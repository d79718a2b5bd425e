//! Ports of a traffic selector: any, one or a range (RFC 4301 §4.4.1.1).

use core::fmt;
use core::str::FromStr;

/// Ports of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Every port, also of packets whose ports cannot be seen.
    pub const ANY: Self = Self {
        first: 0,
        last: u16::MAX,
    };

    /// From the first to the last one. `None` if they are in the wrong order; and port 0 alone,
    /// which no packet has, and which IKEv1 writes for any port (RFC 2407 §4.6.2).
    pub const fn range(first: u16, last: u16) -> Option<Self> {
        if first > last || last == 0 {
            return None;
        }
        Some(Self { first, last })
    }

    /// One port in the form of IKEv1; 0 is any.
    pub const fn of_ikev1(port: u16) -> Self {
        match port {
            0 => Self::ANY,
            one => Self {
                first: one,
                last: one,
            },
        }
    }

    /// The form of IKEv1, which has no ranges.
    pub const fn to_ikev1(self) -> Option<u16> {
        match self {
            Self::ANY => Some(0),
            Self { first, last } if first == last => Some(first),
            Self { .. } => None,
        }
    }

    /// The first and the last one.
    pub const fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// Whether it has every port.
    pub const fn is_any(self) -> bool {
        self.first == 0 && self.last == u16::MAX
    }

    /// Whether it has a packet's port. A later fragment has none (RFC 4301 §7.1).
    pub fn takes(self, port: Option<u16>) -> bool {
        self.is_any() || port.is_some_and(|port| self.first <= port && port <= self.last)
    }

    /// Whether it has every port of the other.
    pub const fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// What both have; `None`: nothing.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::range(self.first.max(other.first), self.last.min(other.last))
    }
}

/// Reads `80`, `1000-2000`, and `0` for any.
impl FromStr for Ports {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse().map_err(|_| ());
        match text.split_once('-') {
            None => Ok(Self::of_ikev1(number(text)?)),
            Some((first, last)) => Self::range(number(first)?, number(last)?).ok_or(()),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}
