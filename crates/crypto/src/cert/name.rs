//! A distinguished name as text: the order of the certificate, `C=CH, O=x, CN=y`, as strongSwan
//! prints it, with RFC 4514's escapes.

use core::fmt::Write;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The whole name.
pub(super) fn text_of(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for relative in name.iter_rdn() {
        for (at, attribute) in relative.iter().enumerate() {
            text.push_str(match at {
                0 if text.is_empty() => "",
                0 => ", ",
                _ => "+",
            });
            push_attribute(&mut text, attribute);
        }
    }
    text
}

/// A moment of the calendar, `2027-01-02 03:04:05 UTC`.
pub(super) fn text_of_time(seconds: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => {
            let (hour, minute, second) = at.to_hms();
            format!("{} {hour:02}:{minute:02}:{second:02} UTC", at.date())
        }
        Err(_) => format!("{seconds} seconds from 1970"),
    }
}

fn push_attribute(text: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let oid = attribute.attr_type().to_id_string();
    let short = TYPES.iter().find(|(known, _)| *known == oid);
    text.push_str(short.map_or(&oid, |(_, short)| short));
    text.push('=');
    let value = attribute.as_slice();
    let decoded = match attribute.attr_value().tag().0 {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING | NUMERIC_STRING | VISIBLE_STRING => {
            core::str::from_utf8(value).ok().map(str::to_owned)
        }
        T61_STRING => Some(value.iter().map(|octet| char::from(*octet)).collect()),
        _ => None,
    };
    match decoded {
        Some(decoded) => push_escaped(text, &decoded),
        None => {
            text.push('#');
            push_hex(text, value);
        }
    }
}

/// What would be read as syntax gets a backslash; what does not print is hexadecimal.
fn push_escaped(text: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (at, symbol) in value.chars().enumerate() {
        if ",+\"\\/".contains(symbol) || symbol == ' ' && (at == 0 || at == last) {
            text.push('\\');
            text.push(symbol);
        } else if symbol.is_control() {
            for octet in symbol.encode_utf8(&mut [0; 4]).bytes() {
                text.push('\\');
                push_hex(text, &[octet]);
            }
        } else {
            text.push(symbol);
        }
    }
}

fn push_hex(text: &mut String, octets: &[u8]) {
    for octet in octets {
        write!(text, "{octet:02x}").expect("a String takes everything");
    }
}

const UTF8_STRING: u32 = 12;
const NUMERIC_STRING: u32 = 18;
const PRINTABLE_STRING: u32 = 19;
const T61_STRING: u32 = 20;
const IA5_STRING: u32 = 22;
const VISIBLE_STRING: u32 = 26;

/// RFC 4519 and RFC 2985, in strongSwan's short words.
const TYPES: [(&str, &str); 13] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "T"),
    ("2.5.4.5", "SN"),
    ("2.5.4.42", "G"),
    ("1.2.840.113549.1.9.1", "E"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];
