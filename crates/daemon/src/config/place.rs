//! Finds the line of a key in the text of a file, and the key at a position.

use document::position;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line, from 1, of a dotted key such as `connections.home.local.id` or `publish[2].port`. If
/// the text lacks the last words, the line of the nearest table above.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let mut table = whole.get_ref();
    let mut found = None;
    for word in key.split('.') {
        let (name, index) = match word.strip_suffix(']').and_then(|word| word.split_once('[')) {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (word, None),
        };
        let entry = table.iter().find(|(key, _)| key.get_ref() == name);
        let Some((at, value)) = entry else { break };
        found = Some(at.span().start);
        let value = match (value.get_ref(), index) {
            (DeValue::Array(items), Some(index)) => match items.get(index.wrapping_sub(1)) {
                Some(item) => {
                    found = Some(item.span().start);
                    item
                }
                None => break,
            },
            _ => value,
        };
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found.map(|at| position(text, at).0)
}

/// The dotted key whose value, header or name is at this octet of the text.
pub(super) fn key_at(text: &str, at: usize) -> Option<String> {
    let whole = DeTable::parse(text).ok()?;
    in_table(whole.get_ref(), "", at)
}

fn in_table(table: &DeTable<'_>, above: &str, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = match above {
            "" => key.get_ref().to_string(),
            _ => format!("{above}.{}", key.get_ref()),
        };
        let inside = in_value(value, &name, at);
        inside.or_else(|| key.span().contains(&at).then_some(name))
    })
}

fn in_value(value: &Spanned<DeValue<'_>>, name: &str, at: usize) -> Option<String> {
    let inside = match value.get_ref() {
        DeValue::Table(table) => in_table(table, name, at),
        DeValue::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let name = format!("{name}[{}]", index + 1);
            in_value(item, &name, at)
        }),
        _ => None,
    };
    inside.or_else(|| value.span().contains(&at).then(|| name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[connections.home]\nlocal = { id = \"a\" }\n[[publish]]\nport = 1\n\
                        [[publish]]\nport = 2\n";

    #[test]
    fn a_key_has_a_line_and_a_place_has_a_key() {
        assert_eq!(line_of(TEXT, "connections.home.local.id"), Some(2));
        assert_eq!(line_of(TEXT, "connections.home.remote.id"), Some(1));
        assert_eq!(line_of(TEXT, "publish[2].port"), Some(6));
        assert_eq!(line_of(TEXT, "daemon.tun"), None);
        let at = |what: &str| key_at(TEXT, TEXT.find(what).expect("in the text"));
        assert_eq!(at("\"a\"").as_deref(), Some("connections.home.local.id"));
        assert_eq!(at("2\n").as_deref(), Some("publish[2].port"));
        assert_eq!(position(TEXT, TEXT.find("id").expect("id")), (2, 11));
    }
}
