//! Quotes of each language. Most of what is quoted has nothing to quote; the quotes are there so
//! that nobody must know that.

use super::{Kind, WriteFault};

/// Refuses a folder that would not stay in its place in some text.
pub(super) fn path(kind: Kind, folder: &str) -> Result<(), WriteFault> {
    let is_windows = matches!(kind, Kind::Windows | Kind::Ipseccmd | Kind::Ipsecpol);
    let signs = if is_windows { ".-_\\:" } else { ".-_/" };
    let is_sign = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    match !folder.is_empty() && folder.chars().all(is_sign) && !folder.starts_with('-') {
        true => Ok(()),
        false => Err(WriteFault::Text {
            kind,
            what: "a folder",
            text: folder.to_owned(),
        }),
    }
}

/// A TOML basic string, which is one of JSON too, and a string of PostScript-like languages.
pub(super) fn toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    toml_signs(text, &mut quoted);
    quoted + "\""
}

/// What is between the quotes of such a string.
pub(super) fn toml_signs(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// A string of TOML's words: `["a", "b"]`.
pub(super) fn toml_list<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<String> = words.iter().map(|word| toml(word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

/// A string between double quotes in a language that has no way to write a quote in it: such a text
/// is refused, and so is one with a line feed.
pub(super) fn plain(kind: Kind, what: &'static str, text: &str) -> Result<String, WriteFault> {
    let is_bad = |c: char| c.is_control() || "\"\\".contains(c);
    match text.contains(is_bad) {
        true => Err(WriteFault::Text {
            kind,
            what,
            text: text.to_owned(),
        }),
        false => Ok(format!("\"{text}\"")),
    }
}

/// A verbatim string of PowerShell. It takes typographic quotes for quotes, too.
pub(super) fn powershell(what: &'static str, text: &str) -> Result<String, WriteFault> {
    if text.contains(char::is_control) {
        let kind = Kind::Windows;
        let text = text.to_owned();
        return Err(WriteFault::Text { kind, what, text });
    }
    Ok(powershell_string(text))
}

/// The same of a text without control characters, for writers elsewhere.
pub fn powershell_string(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        if matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}') {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted + "'"
}

/// A word of a command line.
pub(super) fn word(kind: Kind, word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    match kind {
        // Writers for these put nothing into a word that cmd reads, besides its quotes.
        Kind::Windows | Kind::Ipseccmd | Kind::Ipsecpol => word.to_owned(),
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
