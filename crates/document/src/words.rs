//! The valid word that a wrong one is nearest to.

/// Below this likeness a word is not taken for a misspelling.
const LIKENESS: f64 = 0.75;
const LONGEST_COMPARED: usize = 64;

/// The likeness of two words, 0 to 1 (Jaro and Winkler's). Its time grows with both lengths, so
/// only the start of a long word counts.
pub fn likeness(word: &str, other: &str) -> f64 {
    let start = |word: &str| -> String { word.chars().take(LONGEST_COMPARED).collect() };
    strsim::jaro_winkler(&start(word), &start(other))
}

/// The candidate that `word` misspells or is a part of. None if none is like it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(LONGEST_COMPARED).collect();
    let is_near = |candidate: &&str| {
        let shorter = word.len().min(candidate.len());
        let is_part = candidate.contains(&*word) || word.contains(*candidate);
        let is_slip = shorter > 1 && strsim::damerau_levenshtein(&word, candidate) == 1;
        likeness(&word, candidate) >= LIKENESS || is_slip || shorter > 2 && is_part
    };
    let near = candidates.into_iter().filter(is_near);
    near.max_by(|a, b| likeness(&word, a).total_cmp(&likeness(&word, b)))
}

/// Whether one word is the other with a slip or two.
pub(crate) fn is_slip(word: &str, other: &str) -> bool {
    word.len().min(other.len()) > 2 && strsim::damerau_levenshtein(word, other) <= 2
}

/// Whether one word is very like the other, such as "childs" and "children", and not its beginning.
pub(crate) fn is_like(word: &str, other: &str) -> bool {
    let is_part = word.starts_with(other) || other.starts_with(word);
    !is_part && likeness(word, other) >= 0.85
}

/// Whether a character is not shown, or changes how a terminal shows others: controls, and marks
/// and overrides of the writing direction.
pub(crate) fn is_hidden(c: char) -> bool {
    let is_direction =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction
}

/// A word for people: hidden characters are escaped.
pub fn shown(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for c in word.chars() {
        match is_hidden(c) {
            true => text.extend(c.escape_unicode()),
            false => text.push(c),
        }
    }
    text
}

/// "unknown `what` 'word', the nearest valid one is 'near'", or the list of valid words.
pub fn unknown<'a>(
    what: &str,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    format!(
        "unknown {what} '{}', {}",
        shown(word),
        choices(word, candidates)
    )
}

/// The second half of such a sentence: "the nearest valid one is 'near'", or the list of valid
/// words.
pub fn choices<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = candidates.into_iter().collect();
    match nearest(word, valid.iter().copied()) {
        Some(near) => format!("the nearest valid one is '{near}'"),
        None if valid.is_empty() => "and none is valid here".to_owned(),
        None => format!("valid are '{}'", valid.join("', '")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_parts_and_strangers_are_told_apart() {
        let valid = ["daemon", "connections", "pools", "publish"];
        assert_eq!(nearest("connectons", valid), Some("connections"));
        assert_eq!(nearest("pool", valid), Some("pools"));
        assert_eq!(nearest("zebra", valid), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), valid), None);
        assert_eq!(
            unknown("key", "pool", valid),
            "unknown key 'pool', the nearest valid one is 'pools'"
        );
        assert_eq!(
            unknown("key", "zebra", ["a", "b"]),
            "unknown key 'zebra', valid are 'a', 'b'"
        );
        assert!(unknown("key", "zebra", []).contains("none is valid here"));
        let escaped = unknown("key", "\u{1b}[31m\u{202e}\u{e9}", ["a"]);
        assert!(
            escaped.starts_with("unknown key '\\u{1b}[31m\\u{202e}\u{e9}'"),
            "{escaped}"
        );
    }
}
