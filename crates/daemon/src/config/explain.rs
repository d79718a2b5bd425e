//! Explains a file's first error to its author: line, column, key, and what to write. The parser's
//! own messages use Rust's types.

use document::{position, unknown};
use toml::de::DeTable;

use super::place::key_at;

/// The tables of a file.
const TABLES: [&str; 4] = ["daemon", "connections", "pools", "publish"];

/// Line, column, key and sentence of a parser's error.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map(|span| span.start);
    let key = at.and_then(|at| key_at(text, at)).unwrap_or_default();
    let said = sentence(error.message(), &key);
    let place = at.map(|at| position(text, at));
    let place = place.map(|(line, column)| format!("line {line}, column {column}: "));
    format!("{}{said}", place.unwrap_or_default())
}

/// A header that is not ours. Report it first: otherwise its content is reported as missing.
pub(super) fn strange_table(text: &str) -> Option<String> {
    let whole = DeTable::parse(text).ok()?;
    let strange = |name: &str| !TABLES.contains(&name);
    let keys = whole.get_ref().keys();
    let first = keys
        .filter(|key| strange(key.get_ref()))
        .min_by_key(|key| key.span().start)?;
    let (line, column) = position(text, first.span().start);
    let said = unknown("key", first.get_ref(), TABLES);
    Some(format!("line {line}, column {column}: {said}"))
}

fn sentence(message: &str, key: &str) -> String {
    let last = key.rsplit('.').next().unwrap_or_default();
    let keyed = |said: String| match key {
        "" => said,
        _ => format!("{key}: {said}"),
    };
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (word, valid) = quoted(rest);
        return keyed_above(key, &unknown("key", word, valid));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (word, valid) = quoted(rest);
        return keyed(unknown("value", word, valid));
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        let (word, _) = quoted(rest);
        return keyed(format!("'{word}' is missing{}", example(word)));
    }
    let types = message
        .strip_prefix("invalid type: ")
        .or(message.strip_prefix("invalid value: "));
    if let Some((given, wanted)) = types.and_then(|rest| rest.split_once(", expected ")) {
        if last == "publish" {
            return keyed("write [[publish]], with two brackets: there may be several".to_owned());
        }
        return keyed(format!("{} is not {}", read(given), wanted_words(wanted)));
    }
    match message {
        "invalid socket address syntax" => {
            keyed("this is not ADDRESS:PORT, such as \"10.10.0.2:80\" or \"[fd00::2]:80\"".into())
        }
        "invalid IP address syntax" => {
            keyed("this is not an address, such as \"192.0.2.1\" or \"2001:db8::1\"".into())
        }
        _ => keyed(message.to_owned()),
    }
}

/// Reports an unknown key under the table that contains it.
fn keyed_above(key: &str, said: &str) -> String {
    match key.rsplit_once('.') {
        Some((table, _)) => format!("{table}: {said}"),
        None => said.to_owned(),
    }
}

/// The parser's words in backquotes: the first, and the others.
fn quoted(text: &str) -> (&str, Vec<&str>) {
    let mut words = text.split('`').skip(1).step_by(2);
    (words.next().unwrap_or_default(), words.collect())
}

fn example(key: &str) -> &'static str {
    match key {
        "local" => ": who we are, such as local = { certs = [\"own.pem\"], key = \"own.key\" }",
        "remote" => {
            ": which peers we accept, such as remote = { cacerts = [\"ca.pem\"], id = \
             \"sg.example\" }"
        }
        "children" => ": what is protected, a table [connections.NAME.children.NAME]",
        "addrs" => ", such as addrs = \"10.99.0.0/24\"",
        "port" => ": a port of the gateway, such as port = 80",
        "to" => ": the server inside, such as to = \"10.10.0.2:80\"",
        _ => "",
    }
}

/// What the file has.
fn read(given: &str) -> String {
    match given {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        other => {
            let value = other.split_once(' ').map_or(other, |(_, value)| value);
            value
                .trim_start_matches("point ")
                .trim_matches('`')
                .to_owned()
        }
    }
}

/// What it should have.
fn wanted_words(wanted: &str) -> String {
    let words = match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of 0 or more",
        "a boolean" => "true or false",
        "a string" | "path string" => "text in quotes",
        "a sequence" => "a list in brackets, such as [\"one\", \"two\"]",
        "IP address" => "an address in quotes, such as \"192.0.2.1\"",
        "socket address" => "ADDRESS:PORT in quotes, such as \"10.10.0.2:80\"",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other if other.starts_with("enum ") => "one of its words in quotes",
        other => other,
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::parse;

    fn said(text: &str) -> String {
        parse(Path::new("x.toml"), text).unwrap_err().to_string()
    }

    const SIDES: &str = "local = { id = \"a\" }\nremote = { id = \"b\" }\n";

    #[test]
    fn a_wrong_value_is_told_with_its_key_and_in_words() {
        for (text, wanted) in [
            (
                "[[publish]]\nport = 70000\nto = \"10.0.0.1:80\"".to_owned(),
                "x.toml: line 2, column 8: publish[1].port: 70000 is not a whole number from 0 to \
                 65535",
            ),
            (
                "[publish]\nport = 80\nto = \"10.0.0.1:80\"".to_owned(),
                "publish: write [[publish]], with two brackets",
            ),
            (
                "[[publish]]\nport = 80\nto = \"10.0.0.1\"".to_owned(),
                "line 3, column 6: publish[1].to: this is not ADDRESS:PORT, such as",
            ),
            (
                "[daemon]\ndns = \"yes\"".to_owned(),
                "line 2, column 7: daemon.dns: \"yes\" is not true or false",
            ),
            (
                format!("[connections.x]\n{SIDES}[connections.x.children.n]\nmode = \"tunel\""),
                "line 5, column 8: connections.x.children.n.mode: unknown value 'tunel', the \
                 nearest valid one is 'tunnel'",
            ),
            (
                format!("[connections.x]\n{SIDES}vips = [\"any\"]\n[connections.x.children.n]"),
                "connections.x.vips[1]: this is not an address",
            ),
            (
                format!("[connections.x]\n{SIDES}remote_port = 0x1ffff"),
                "connections.x.remote_port: 131071 is not a whole number from 0 to 65535",
            ),
            (
                "[connections.x]\nlocal = 5".to_owned(),
                "connections.x.local: 5 is not a table",
            ),
            (
                "[connections.x]\nremote = {}\n[connections.x.children.n]".to_owned(),
                "'local' is missing: who we are, such as local = {",
            ),
        ] {
            let said = said(&text);
            assert!(said.contains(wanted), "{said}\nwanted {wanted}");
        }
    }

    #[test]
    fn a_mistyped_header_is_told_before_what_it_was_to_hold() {
        let text = format!(
            "[connectons.x]\n{SIDES}[connections.x.children.n]\nremote_ts = [\"10.0.0.0/8\"]"
        );
        let wanted = "line 1, column 2: unknown key 'connectons', the nearest valid one is \
                      'connections'";
        assert!(said(&text).contains(wanted), "{}", said(&text));
        assert!(said("[zebra]").contains("valid are 'daemon', 'connections'"));
    }
}
