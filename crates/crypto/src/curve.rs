//! NIST's curves of prime order (FIPS 186-4 §D.1.2).

/// The curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Curve {
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// secp521r1.
    P521,
}

impl Curve {
    /// Every curve.
    pub const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    /// Octets of a coordinate and of a scalar.
    #[expect(clippy::len_without_is_empty, reason = "no curve is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Bits of a coordinate and of a scalar.
    pub const fn bits(self) -> u32 {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }
}
