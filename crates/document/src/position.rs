//! Lines and columns of a text.

/// Where the lines of a text begin: for many places of one text.
pub struct Lines<'a> {
    text: &'a str,
    begins: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Looks through the text once.
    pub fn of(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let begins = [0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, begins }
    }

    /// Line and column, from 1, of an octet; columns count characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let line = self.begins.partition_point(|begin| *begin <= at).max(1);
        let before = self.text.get(self.begins[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// Line and column, from 1, of an octet of a text; columns count characters.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    Lines::of(text).position(at)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn no_octet_is_without_a_place() {
        let text = "\u{e9}\n\u{e9}";
        for at in 0..text.len() + 3 {
            let (line, column) = position(text, at);
            assert!((1..=2).contains(&line) && column >= 1, "{at}");
        }
    }
}
