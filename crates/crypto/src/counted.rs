//! Octets behind their number, in a form that only we read: paths of certificates, tickets.

/// Writes octets behind their number; `None` if there are too many.
pub fn put(out: &mut Vec<u8>, octets: &[u8]) -> Option<()> {
    out.extend_from_slice(&u16::try_from(octets.len()).ok()?.to_be_bytes());
    out.extend_from_slice(octets);
    Some(())
}

/// Reads octets whose number is known; `None` if there are fewer.
pub fn fixed<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, more) = rest.split_first_chunk()?;
    *rest = more;
    Some(first)
}

/// Reads what [`put`] wrote; `None` if octets are missing.
pub fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u16::from_be_bytes(*fixed(rest)?);
    let (octets, more) = rest.split_at_checked(len.into())?;
    *rest = more;
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_come_back_whole_or_not_at_all() {
        let mut out = Vec::new();
        for part in [&b"a"[..], b"", b"bc"] {
            put(&mut out, part).expect("few octets");
        }
        let rest = &mut &out[..];
        let read = [take(rest), take(rest), take(rest), take(rest)];
        assert_eq!(read, [Some(&b"a"[..]), Some(b""), Some(b"bc"), None]);
        assert_eq!(take(&mut &out[..2]), None);
        assert_eq!(fixed::<3>(&mut &out[..2]), None);
        assert_eq!(put(&mut out, &vec![0; 65_536]), None);
    }
}
