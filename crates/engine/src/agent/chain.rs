//! The log's chain: each line carries the SHA-256 of the line before, so that no line can be
//! changed, removed or put in without changing all after it.
//!
//! A line is `FORMER TEXT` and a line feed, FORMER in hexadecimal; the first line has the hash of a
//! name, so that a log cannot pass for another. What the chain cannot show by itself is that last
//! lines were cut off: whoever wants to know keeps a [`Head`] elsewhere.

use super::Digest;
use super::identity::digest;

/// Octets of a line.
pub const LINE_MAX: usize = 1_024;
/// Octets of the hash in hexadecimal.
const FORMER_LEN: usize = 64;

/// The end of a log: what the next line carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Hash of the last line.
    pub former: Digest,
    /// Lines so far.
    pub lines: u64,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A line carries another hash than that of the line before, or none.
    #[error(
        "line {line} does not follow line {}: one of the two was changed, or lines between them \
         are missing or were added",
        line - 1
    )]
    Changed {
        /// Counted from 1.
        line: u64,
    },
    /// The log goes on or ends elsewhere than where it was said to be.
    #[error("the log does not have the {lines} lines that were noted, as they were")]
    NotWhatWasNoted {
        /// As noted.
        lines: u64,
    },
    /// A line is too long to be one of ours.
    #[error("line {line} has more than {LINE_MAX} octets")]
    TooLong {
        /// Counted from 1.
        line: u64,
    },
}

/// A whole log that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Its end.
    pub head: Head,
    /// Octets of its whole lines.
    pub octets: usize,
    /// Octets of a last line that a crash has torn: it has no line feed. They are no line, and
    /// whoever appends cuts them off first.
    pub torn: usize,
}

impl Head {
    /// The start of the log of this name.
    pub fn start(name: &str) -> Self {
        Self {
            former: digest(&[b"caravan tunnel-agent 1 log ", name.as_bytes()]),
            lines: 0,
        }
    }

    /// The next line, and the end after it. Control characters of the text are escaped, and what is
    /// above [`LINE_MAX`] is left out.
    pub fn append(&mut self, text: &str) -> String {
        let mut line = format!("{} ", self.former);
        for c in text.chars() {
            let escaped: String = match c.is_control() {
                true => c.escape_default().collect(),
                false => c.to_string(),
            };
            if line.len() + escaped.len() >= LINE_MAX {
                break;
            }
            line.push_str(&escaped);
        }
        line.push('\n');
        self.former = digest(&[line.as_bytes()]);
        self.lines += 1;
        line
    }
}

/// Reads a log of this name. `noted` is an end that was kept elsewhere: the log must have been
/// there.
pub fn verify(name: &str, log: &[u8], noted: Option<Head>) -> Result<Whole, Broken> {
    let mut head = Head::start(name);
    let mut is_noted = noted.is_none_or(|it| it == head);
    let mut octets = 0;
    for line in log.split_inclusive(|octet| *octet == b'\n') {
        if line.last() != Some(&b'\n') {
            break;
        }
        if line.len() > LINE_MAX {
            return Err(Broken::TooLong {
                line: head.lines + 1,
            });
        }
        let former = head.former.to_string();
        let follows = line.get(..FORMER_LEN) == Some(former.as_bytes());
        if !follows || line.get(FORMER_LEN) != Some(&b' ') {
            return Err(Broken::Changed {
                line: head.lines + 1,
            });
        }
        head.former = digest(&[line]);
        head.lines += 1;
        octets += line.len();
        is_noted |= noted == Some(head);
    }
    if let Some(noted) = noted
        && !is_noted
    {
        return Err(Broken::NotWhatWasNoted { lines: noted.lines });
    }
    Ok(Whole {
        head,
        octets,
        torn: log.len() - octets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(texts: &[&str]) -> (Vec<u8>, Head) {
        let mut head = Head::start("host");
        let lines = texts.iter().map(|text| head.append(text));
        (lines.collect::<String>().into_bytes(), head)
    }

    #[test]
    fn a_line_carries_the_hash_of_the_line_before() {
        let (octets, _) = log(&["one", "two"]);
        let text = String::from_utf8(octets).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let first = digest(&[lines[0].as_bytes(), b"\n"]).to_string();
        assert_eq!(lines[1], format!("{first} two"));
    }

    #[test]
    fn every_change_is_found_and_told_from_a_torn_line() {
        let (octets, head) = log(&["one", "two", "three\nlines"]);
        let whole = verify("host", &octets, Some(head)).unwrap();
        assert_eq!(
            (whole.head, whole.octets, whole.torn),
            (head, octets.len(), 0)
        );
        assert!(verify("target", &octets, None).is_err());
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert_ne!(
                verify("host", &changed, Some(head)),
                Ok(whole),
                "octet {at}"
            );
            // Without a note, only the last line may pass, or the last two as one.
            let mut lines = octets.split_inclusive(|it| *it == b'\n');
            let last = octets.len() - lines.next_back().unwrap().len();
            if at + 1 < last {
                assert!(verify("host", &changed, None).is_err(), "octet {at}");
            }
        }
        let second = octets.iter().position(|it| *it == b'\n').unwrap() + 1;
        for len in 0..octets.len() {
            let cut = verify("host", &octets[..len], None).unwrap();
            assert_eq!(cut.octets + cut.torn, len);
            assert_eq!(cut.torn == 0, len == 0 || octets[len - 1] == b'\n');
            let noted = verify("host", &octets[..len], Some(head));
            assert_eq!(noted, Err(Broken::NotWhatWasNoted { lines: 3 }));
        }
        let gap = verify("host", &octets[second..], None);
        assert_eq!(gap, Err(Broken::Changed { line: 1 }));
    }

    #[test]
    fn a_log_goes_on_after_a_torn_line() {
        let (mut octets, head) = log(&["one", "two"]);
        octets.extend_from_slice(b"0123 torn");
        let whole = verify("host", &octets, Some(head)).unwrap();
        assert_eq!(whole.torn, 9);
        octets.truncate(whole.octets);
        let mut head = whole.head;
        octets.extend_from_slice(head.append("three").as_bytes());
        assert_eq!(verify("host", &octets, None).unwrap().head.lines, 3);
    }

    #[test]
    fn a_long_text_is_cut() {
        let mut head = Head::start("host");
        let line = head.append(&"ä\u{7}".repeat(2_000));
        assert!(line.len() <= LINE_MAX && line.ends_with('\n'));
        assert_eq!(verify("host", line.as_bytes(), None).unwrap().head, head);
    }
}
