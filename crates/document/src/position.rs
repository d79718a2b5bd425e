//! Lines and columns of a text.

/// Octets between two positions whose character count is stored.
const STRIDE: usize = 64;

/// The line starts of a text, for finding many positions. Each look-up costs the same wherever it
/// is, even if the whole text is one line.
pub(crate) struct Lines<'a> {
    text: &'a [u8],
    begins: Vec<usize>,
    /// Characters that begin before each [`STRIDE`].
    counts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Scans the text once.
    pub(crate) fn of(text: &'a str) -> Self {
        let text = text.as_bytes();
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let begins = [0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect();
        let mut before = 0;
        let strides = text.chunks(STRIDE).map(characters);
        let counts = strides.map(|count| {
            let at = before;
            before += count;
            at
        });
        let counts = counts.collect();
        Self {
            text,
            begins,
            counts,
        }
    }

    /// Line and column, from 1, of an octet; columns count characters.
    pub(crate) fn position(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let line = self.begins.partition_point(|begin| *begin <= at).max(1);
        let column = self.before(at) - self.before(self.begins[line - 1]) + 1;
        (line, column)
    }

    /// Characters that begin before an octet.
    fn before(&self, at: usize) -> usize {
        let stride = (at / STRIDE).min(self.counts.len().saturating_sub(1));
        let counted = self.counts.get(stride).copied().unwrap_or_default();
        counted + characters(&self.text[stride * STRIDE..at])
    }
}

/// Characters that begin in a part of a text.
fn characters(part: &[u8]) -> usize {
    let is_first = |octet: &&u8| **octet & 0xc0 != 0x80;
    part.iter().filter(is_first).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str, at: usize) -> (usize, usize) {
        Lines::of(text).position(at)
    }

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let text = "a = 1\n\u{e9} = 2\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 4), (1, 5));
        assert_eq!(position(text, 6), (2, 1));
        assert_eq!(position(text, 9), (2, 3));
        assert_eq!(position(text, text.len()), (3, 1));
        assert_eq!(position("", 0), (1, 1));
    }

    #[test]
    fn a_long_line_has_the_columns_that_counting_finds() {
        let text = format!("a\n{}", "\u{e9}x\u{1f600}".repeat(STRIDE));
        let lines = Lines::of(&text);
        for (at, _) in text.char_indices().skip(2) {
            assert_eq!(lines.position(at), (2, text[2..at].chars().count() + 1));
        }
        let all = text[2..].chars().count();
        assert_eq!(lines.position(text.len()), (2, all + 1));
    }

    #[test]
    fn no_octet_is_without_a_place() {
        let text = "\u{e9}\n\u{e9}";
        for at in 0..text.len() + 3 {
            let (line, column) = position(text, at);
            assert!((1..=2).contains(&line) && column >= 1, "{at}");
        }
    }
}
