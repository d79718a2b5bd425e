//! Distinguished names: DER and text, both ways (RFC 5280 §4.1.2.4, RFC 4514), in the order of the
//! certificate, as strongSwan prints it: `C=CH, O=x, CN=y`.
//!
//! Left out: string types other than UTF-8, Printable, IA5, Numeric, Visible and T61 (as Latin-1);
//! the white space folding of RFC 5280 §7.1.

use core::fmt;
use core::str::FromStr;

/// Content octets of the object identifier of a common name.
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];

/// Attributes of one name at most.
const MAX_ATTRIBUTES: usize = 64;

/// Octets of a name as text at most.
const MAX_TEXT: usize = 4096;

/// Octets of a name as DER at most. Its normal form may have twice as many, because T61 becomes
/// UTF-8. That is still below the 64 KiB that a length of two octets can express.
const MAX_DER: usize = 16 << 10;

/// A parsed distinguished name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinguishedName {
    /// Outer: the relative names in order. Inner: the attributes of one, usually a single one.
    relative: Vec<Vec<Attribute>>,
}

/// One attribute of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    /// Content octets of the object identifier.
    oid: Vec<u8>,
    /// DER tag of the value.
    tag: u8,
    /// Content octets of the value.
    value: Vec<u8>,
}

/// Why a text is not a distinguished name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// No `=` in a part.
    #[error("{0:?} is not TYPE=VALUE")]
    NoEquals(String),
    /// A type that is neither a known name nor numbers with dots.
    #[error("{0:?} is no attribute type such as C, O, OU, CN")]
    Type(String),
    /// Nothing after the `=`.
    #[error("{0} has no value")]
    NoValue(String),
    /// A quotation mark without its partner, or a backslash at the end.
    #[error("a quotation or an escape does not end")]
    Open,
    /// A name that is too long: its octets, and the limit.
    #[error("a name of {0} octets is longer than {1}")]
    TooLong(usize, usize),
    /// Octets that are not the DER of a name.
    #[error("not the DER of a distinguished name")]
    Der,
    /// More attributes than a name may have.
    #[error("more than {MAX_ATTRIBUTES} attributes")]
    TooMany,
}

impl DistinguishedName {
    /// Reads DER without trailing octets.
    pub fn from_der(der: &[u8]) -> Result<Self, NameFault> {
        if der.len() > MAX_DER {
            return Err(NameFault::TooLong(der.len(), MAX_DER));
        }
        let mut outer = Der(der);
        let mut names = outer.element(SEQUENCE)?;
        outer.finish()?;
        let mut relative = Vec::new();
        let mut count = 0;
        while !names.0.is_empty() {
            let mut set = names.element(SET)?;
            let mut attributes = Vec::new();
            while !set.0.is_empty() {
                count += 1;
                if count > MAX_ATTRIBUTES {
                    return Err(NameFault::TooMany);
                }
                attributes.push(Attribute::read(&mut set)?);
            }
            if attributes.is_empty() {
                return Err(NameFault::Der);
            }
            relative.push(attributes);
        }
        Ok(Self { relative })
    }

    /// DER.
    pub fn to_der(&self) -> Vec<u8> {
        let sets = self.relative.iter().map(|attributes| {
            let mut encoded: Vec<_> = attributes.iter().map(Attribute::to_der).collect();
            // DER sorts the elements of a SET OF.
            encoded.sort();
            tagged(SET, &encoded.concat())
        });
        tagged(SEQUENCE, &sets.collect::<Vec<_>>().concat())
    }

    /// Whether a value is `*`.
    pub fn has_wildcard(&self) -> bool {
        self.relative.iter().flatten().any(Attribute::is_wildcard)
    }

    /// Whether every value is a wildcard. Such a name matches everybody.
    pub fn is_all_wildcards(&self) -> bool {
        self.relative.iter().flatten().all(Attribute::is_wildcard)
    }

    /// The text of its first common name.
    pub fn common_name(&self) -> Option<String> {
        let mut all = self.relative.iter().flatten();
        all.find(|it| it.oid == COMMON_NAME)?.text()
    }

    /// Whether it has no attribute. Such a name identifies nobody.
    pub fn is_empty(&self) -> bool {
        self.relative.is_empty()
    }

    /// The form in which equal names are identical: every string is UTF-8 in lower case, and the
    /// attributes of one part are in DER's order.
    pub fn normal_form(&self) -> Self {
        let part = |attributes: &Vec<Attribute>| {
            let mut part: Vec<_> = attributes.iter().map(Attribute::normal_form).collect();
            part.sort_by_cached_key(Attribute::to_der);
            part
        };
        Self {
            relative: self.relative.iter().map(part).collect(),
        }
    }

    /// Whether both are equal, ignoring case and string type.
    pub fn is_same(&self, other: &Self) -> bool {
        self.normal_form() == other.normal_form()
    }

    /// As [`Self::is_same`], but a value `*` of ours fits any value.
    pub fn fits(&self, other: &Self) -> bool {
        let (own, other) = (self.normal_form().relative, other.normal_form().relative);
        own.len() == other.len()
            && own.iter().zip(&other).all(|(own, other)| {
                own.len() == other.len() && own.iter().zip(other).all(|(a, b)| a.fits(b))
            })
    }
}

impl Attribute {
    fn read(set: &mut Der<'_>) -> Result<Self, NameFault> {
        let mut pair = set.element(SEQUENCE)?;
        let oid = pair.element(OID)?.0.to_vec();
        if oid.is_empty() {
            return Err(NameFault::Der);
        }
        let (tag, value) = pair.next()?;
        pair.finish()?;
        let value = value.to_vec();
        Ok(Self { oid, tag, value })
    }

    fn to_der(&self) -> Vec<u8> {
        let inner = [tagged(OID, &self.oid), tagged(self.tag, &self.value)].concat();
        tagged(SEQUENCE, &inner)
    }

    /// Makes an attribute of a type's name and an unescaped value.
    fn new(kind: &str, value: &str) -> Result<Self, NameFault> {
        if value.is_empty() {
            return Err(NameFault::NoValue(kind.into()));
        }
        let known = TYPES
            .iter()
            .find(|(names, ..)| names.iter().any(|name| name.eq_ignore_ascii_case(kind)));
        let (oid, prefers) = match known {
            Some((_, oid, tag)) => (oid.to_vec(), *tag),
            None => {
                let oid = oid_from_dots(kind).ok_or_else(|| NameFault::Type(kind.into()))?;
                (oid, PRINTABLE_STRING)
            }
        };
        let fits = match prefers {
            IA5_STRING => value.is_ascii(),
            _ => value.bytes().all(is_printable),
        };
        Ok(Self {
            oid,
            tag: if fits { prefers } else { UTF8_STRING },
            value: value.as_bytes().to_vec(),
        })
    }

    fn normal_form(&self) -> Self {
        let Some(text) = self.text() else {
            return self.clone();
        };
        Self {
            oid: self.oid.clone(),
            tag: UTF8_STRING,
            value: text.to_ascii_lowercase().into_bytes(),
        }
    }

    /// Compares two attributes in normal form.
    fn fits(&self, other: &Self) -> bool {
        let is_any = self.is_wildcard() && other.text().is_some();
        self == other || (self.oid == other.oid && is_any)
    }

    fn is_wildcard(&self) -> bool {
        self.text().as_deref() == Some("*")
    }

    /// The value as text, if its type is a string.
    fn text(&self) -> Option<String> {
        match self.tag {
            UTF8_STRING | PRINTABLE_STRING | IA5_STRING | NUMERIC_STRING | VISIBLE_STRING => {
                String::from_utf8(self.value.clone()).ok()
            }
            T61_STRING => Some(self.value.iter().map(|octet| char::from(*octet)).collect()),
            _ => None,
        }
    }
}

/// Parts joined by `, `, several attributes of one part by `+`. Special characters are escaped with
/// a backslash, unprintable ones are in hexadecimal.
impl fmt::Display for DistinguishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, attributes) in self.relative.iter().enumerate() {
            for (j, attribute) in attributes.iter().enumerate() {
                match (i, j) {
                    (0, 0) => {}
                    (_, 0) => write!(f, ", ")?,
                    _ => write!(f, "+")?,
                }
                write!(f, "{attribute}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TYPES.iter().find(|(_, oid, _)| *oid == self.oid) {
            Some((names, ..)) => write!(f, "{}=", names[0])?,
            None => write!(f, "{}=", dots_from_oid(&self.oid))?,
        }
        let Some(text) = self.text() else {
            write!(f, "#{:02x}", self.tag)?;
            return self.value.iter().try_for_each(|o| write!(f, "{o:02x}"));
        };
        let last = text.chars().count().saturating_sub(1);
        for (at, symbol) in text.chars().enumerate() {
            let is_outer_space = symbol == ' ' && (at == 0 || at == last);
            if SPECIAL.contains(symbol) || is_outer_space {
                write!(f, "\\{symbol}")?;
            } else if !is_shown(symbol) {
                let mut octets = [0; 4];
                for octet in symbol.encode_utf8(&mut octets).bytes() {
                    write!(f, "\\{octet:02x}")?;
                }
            } else {
                write!(f, "{symbol}")?;
            }
        }
        Ok(())
    }
}

/// Reads `C=CH, O="Caravan, Ltd", CN=y`. Parts are divided by `,`, or by `/` if the text begins
/// with it. `+` joins attributes of one part. A backslash takes the next character as it is.
impl FromStr for DistinguishedName {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        if text.len() > MAX_TEXT {
            return Err(NameFault::TooLong(text.len(), MAX_TEXT));
        }
        // A space at the end may be escaped, so the reader of the last value trims it.
        let text = text.trim_start();
        let (text, divider) = match text.strip_prefix('/') {
            Some(rest) => (rest, '/'),
            None => (text, ','),
        };
        let mut relative = Vec::new();
        let mut current = Vec::new();
        let mut count = 0;
        let mut rest = text;
        loop {
            let (attribute, end, tail) = attribute_text(rest, divider)?;
            count += 1;
            if count > MAX_ATTRIBUTES {
                return Err(NameFault::TooMany);
            }
            current.push(attribute);
            if end != Some('+') {
                relative.push(core::mem::take(&mut current));
            }
            if end.is_none() {
                return Ok(Self { relative });
            }
            rest = tail;
        }
    }
}

/// Returns one `TYPE=VALUE`, the character that ended it, and the rest.
fn attribute_text(text: &str, divider: char) -> Result<(Attribute, Option<char>, &str), NameFault> {
    let (kind, rest) = text
        .split_once('=')
        .ok_or_else(|| NameFault::NoEquals(text.trim().into()))?;
    let mut octets = Vec::new();
    // How many of `octets` must stay although they end in spaces.
    let mut kept = 0;
    let mut is_quoted = false;
    let mut ended = None;
    let mut chars = rest.char_indices();
    while let Some((at, symbol)) = chars.next() {
        match symbol {
            '\\' => {
                push_escaped(&mut octets, &mut chars)?;
                kept = octets.len();
            }
            '"' => {
                is_quoted = !is_quoted;
                kept = octets.len();
            }
            _ if !is_quoted && (symbol == divider || symbol == '+') => {
                ended = Some((symbol, at + symbol.len_utf8()));
                break;
            }
            ' ' if !is_quoted && octets.is_empty() => {}
            _ => {
                octets.extend_from_slice(symbol.encode_utf8(&mut [0; 4]).as_bytes());
                if is_quoted || symbol != ' ' {
                    kept = octets.len();
                }
            }
        }
    }
    if is_quoted {
        return Err(NameFault::Open);
    }
    octets.truncate(kept);
    let value = String::from_utf8(octets).map_err(|_| NameFault::Open)?;
    let attribute = Attribute::new(kind.trim(), &value)?;
    Ok(match ended {
        Some((symbol, next)) => (attribute, Some(symbol), &rest[next..]),
        None => (attribute, None, ""),
    })
}

/// Reads what follows a backslash: two hexadecimal digits, or a symbol as it is.
fn push_escaped(
    octets: &mut Vec<u8>,
    chars: &mut core::str::CharIndices<'_>,
) -> Result<(), NameFault> {
    let (_, first) = chars.next().ok_or(NameFault::Open)?;
    let second = chars.as_str().chars().next();
    match (
        first.to_digit(16),
        second.and_then(|symbol| symbol.to_digit(16)),
    ) {
        (Some(high), Some(low)) => {
            chars.next();
            octets.push((high << 4 | low) as u8);
        }
        _ => octets.extend_from_slice(first.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    Ok(())
}

/// A certificate's name as text. A name that cannot be read is in hexadecimal.
pub(super) fn text_of(der: &[u8]) -> String {
    let in_hexadecimal = |_| der.iter().map(|octet| format!("{octet:02x}")).collect();
    DistinguishedName::from_der(der).map_or_else(in_hexadecimal, |name| name.to_string())
}

/// The unread rest of a sequence of elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element. Refuses any other tag.
    fn element(&mut self, tag: u8) -> Result<Self, NameFault> {
        let (found, content) = self.next()?;
        if found == tag {
            Ok(Self(content))
        } else {
            Err(NameFault::Der)
        }
    }

    /// Tag and content of the next element. Its length is definite and has at most two octets.
    fn next(&mut self) -> Result<(u8, &'a [u8]), NameFault> {
        let (tag, len, rest) = match *self.0 {
            [tag, len @ 0..=0x7f, ref rest @ ..] => (tag, usize::from(len), rest),
            [tag, 0x81, len, ref rest @ ..] => (tag, usize::from(len), rest),
            [tag, 0x82, high, low, ref rest @ ..] => {
                (tag, u16::from_be_bytes([high, low]).into(), rest)
            }
            _ => return Err(NameFault::Der),
        };
        let (content, rest) = rest.split_at_checked(len).ok_or(NameFault::Der)?;
        self.0 = rest;
        Ok((tag, content))
    }

    fn finish(&self) -> Result<(), NameFault> {
        self.0.is_empty().then_some(()).ok_or(NameFault::Der)
    }
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let mut octets = vec![tag];
    match len {
        0..=0x7f => octets.push(len as u8),
        0x80..=0xff => octets.extend([0x81, len as u8]),
        _ => {
            let len = u16::try_from(len).expect("a name below 64 KiB");
            octets.push(0x82);
            octets.extend(len.to_be_bytes());
        }
    }
    octets.extend_from_slice(content);
    octets
}

/// Content octets of the object identifier `2.5.4.3` and its like.
fn oid_from_dots(text: &str) -> Option<Vec<u8>> {
    let mut arcs = text.split('.').map(|arc| arc.parse::<u32>().ok());
    let (first, second) = (arcs.next()??, arcs.next()??);
    if first > 2 || (first < 2 && second > 39) {
        return None;
    }
    let mut octets = Vec::new();
    push_arc(&mut octets, second.checked_add(first * 40)?);
    for arc in arcs {
        push_arc(&mut octets, arc?);
    }
    Some(octets)
}

fn push_arc(octets: &mut Vec<u8>, arc: u32) {
    let groups = (32 - arc.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let more = if group > 0 { 0x80 } else { 0 };
        octets.push((arc >> (group * 7)) as u8 & 0x7f | more);
    }
}

fn dots_from_oid(octets: &[u8]) -> String {
    let mut text = String::new();
    let mut arc = 0_u64;
    for octet in octets {
        arc = arc << 7 & (u64::MAX >> 1) | u64::from(octet & 0x7f);
        if octet & 0x80 != 0 {
            continue;
        }
        if text.is_empty() {
            let first = (arc / 40).min(2);
            text = format!("{first}.{}", arc - first * 40);
        } else {
            text = format!("{text}.{arc}");
        }
        arc = 0;
    }
    text
}

/// Whether a symbol is visible on its own. Control characters, marks that change the direction of a
/// line, and symbols that combine with others or have no width could make one name look like
/// another.
fn is_shown(symbol: char) -> bool {
    matches!(symbol, '\'' | '"' | '\\') || symbol.escape_debug().len() == 1
}

/// RFC 5280 appendix B, PrintableString. It excludes `*`, so a wildcard is a UTF8String.
fn is_printable(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&octet)
}

const SPECIAL: &str = "\\,+\"/";

const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const NUMERIC_STRING: u8 = 0x12;
const PRINTABLE_STRING: u8 = 0x13;
const T61_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const VISIBLE_STRING: u8 = 0x1a;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// Names (the first is printed), object identifier, preferred string type.
type Kind = (&'static [&'static str], &'static [u8], u8);

const TYPES: [Kind; 13] = [
    (&["CN"], &[0x55, 4, 3], PRINTABLE_STRING),
    (&["C"], &[0x55, 4, 6], PRINTABLE_STRING),
    (&["L"], &[0x55, 4, 7], PRINTABLE_STRING),
    (&["ST", "S"], &[0x55, 4, 8], PRINTABLE_STRING),
    (&["STREET"], &[0x55, 4, 9], PRINTABLE_STRING),
    (&["O"], &[0x55, 4, 10], PRINTABLE_STRING),
    (&["OU"], &[0x55, 4, 11], PRINTABLE_STRING),
    (&["T"], &[0x55, 4, 12], PRINTABLE_STRING),
    (&["SN", "serialNumber"], &[0x55, 4, 5], PRINTABLE_STRING),
    (&["G", "GN"], &[0x55, 4, 42], PRINTABLE_STRING),
    (
        &["E", "emailAddress"],
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        IA5_STRING,
    ),
    (
        &["DC"],
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        IA5_STRING,
    ),
    (
        &["UID"],
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        PRINTABLE_STRING,
    ),
];

#[cfg(test)]
mod tests;
