//! The log's chain: each line carries the SHA-256 of the line before, so that no line can be
//! changed, removed or put in without changing all after it.
//!
//! A line is `FORMER TEXT` and a line feed, FORMER in hexadecimal; the first line has the hash of a
//! name, so that a log cannot pass for another. What the chain cannot show by itself is that last
//! lines were cut off, or written anew: whoever wants to know keeps a [`Head`] elsewhere. Now and
//! then the agent signs the head in a line of the log ([`signed_text`]), so who does not have its
//! keys cannot write a signed part anew.

use crypto::ed25519::{Signature, VerifyKey};
use crypto::hpke::PublicKey;

use super::Digest;
use super::identity::{Fingerprint, Identity, Keys, digest};
use crate::time::Calendar;

/// Starts what an agent signs of its log.
const SIGNED: &[u8] = b"caravan tunnel-agent 1 log\0";

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
    /// A line has a signature that is not of this agent, or not over the lines before it.
    #[error("line {line} is not a signature of this agent over the lines before it")]
    NotSigned {
        /// Counted from 1.
        line: u64,
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
    /// Lines that a signature of the agent covers, if one was looked for.
    pub signed: u64,
    /// Octets of a last line that a crash has torn: it has no line feed. They are no line, and
    /// whoever appends cuts them off first. Before them is a line of ours, or they begin as the
    /// first one does: no other file is taken for a torn log.
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

    /// Whether this may be the start of the next line, as a crash leaves it.
    fn begins(&self, torn: &[u8]) -> bool {
        let start = format!("{} ", self.former);
        let len = torn.len().min(start.len());
        torn.len() < LINE_MAX && torn[..len] == start.as_bytes()[..len]
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

/// A line about the lines so far: the agent's public keys, and its signature over the head.
pub fn signed_text(name: &str, head: Head, keys: &Keys, at: Calendar) -> String {
    let signature = keys.signing.sign(&[&signed_octets(name, head)]);
    let identity = keys.identity();
    let mut text = format!("{} sealing=", signed_start(name, &at.to_string()));
    let parts: [(&[u8], &str); 3] = [
        (&identity.sealing.0, " signing="),
        (&identity.signing.0, " signature="),
        (&signature.0, ""),
    ];
    for (octets, next) in parts {
        for octet in octets {
            text.push_str(&format!("{octet:02x}"));
        }
        text.push_str(next);
    }
    text
}

fn signed_start(name: &str, at: &str) -> String {
    format!("at={at} role={name} step=signed")
}

fn signed_octets(name: &str, head: Head) -> Vec<u8> {
    let lines = head.lines.to_be_bytes();
    [SIGNED, name.as_bytes(), b"\0", &lines, &head.former.0].concat()
}

/// Whether this is a line of [`signed_text`], and a good one of this agent. None: it is another
/// line. What a user is called comes later in a line, so no name makes one.
fn is_signed(name: &str, text: &str, head: Head, by: Fingerprint) -> Option<bool> {
    let at = text.strip_prefix("at=")?.split(' ').next()?;
    let rest = text.strip_prefix(&signed_start(name, at))?;
    let mut values = rest
        .split_whitespace()
        .zip(["sealing=", "signing=", "signature="]);
    let mut next = || {
        let (word, key) = values.next()?;
        octets_of(word.strip_prefix(key)?)
    };
    let mut read = || {
        let identity = Identity {
            sealing: PublicKey(next()?.try_into().ok()?),
            signing: VerifyKey(next()?.try_into().ok()?),
        };
        Some((identity, Signature(next()?.try_into().ok()?)))
    };
    Some(read().is_some_and(|(identity, signature)| {
        let octets = signed_octets(name, head);
        identity.fingerprint() == by && identity.signing.verify(&[&octets], &signature).is_ok()
    }))
}

fn octets_of(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let octets = pairs.map(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 16).ok());
    octets.collect()
}

/// Reads a log of this name. `noted` is an end that was kept elsewhere: the log must have been
/// there. `by`: every signature in it must be of this agent.
pub fn verify(
    name: &str,
    log: &[u8],
    noted: Option<Head>,
    by: Option<Fingerprint>,
) -> Result<Whole, Broken> {
    let mut head = Head::start(name);
    let mut signed = 0;
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
        if let (Some(by), Ok(text)) = (by, str::from_utf8(&line[FORMER_LEN + 1..])) {
            match is_signed(name, text.trim_end(), head, by) {
                Some(true) => signed = head.lines,
                Some(false) => {
                    let line = head.lines + 1;
                    return Err(Broken::NotSigned { line });
                }
                None => {}
            }
        }
        head.former = digest(&[line]);
        head.lines += 1;
        octets += line.len();
        is_noted |= noted == Some(head);
    }
    let torn = &log[octets..];
    if head.lines == 0 && !head.begins(torn) {
        return Err(Broken::Changed { line: 1 });
    }
    if let Some(noted) = noted
        && !is_noted
    {
        return Err(Broken::NotWhatWasNoted { lines: noted.lines });
    }
    Ok(Whole {
        head,
        octets,
        signed,
        torn: torn.len(),
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
        let whole = verify("host", &octets, Some(head), None).unwrap();
        assert_eq!(
            (whole.head, whole.octets, whole.torn),
            (head, octets.len(), 0)
        );
        assert!(verify("target", &octets, None, None).is_err());
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert_ne!(
                verify("host", &changed, Some(head), None),
                Ok(whole),
                "octet {at}"
            );
            // Without a note, only the last line may pass, or the last two as one.
            let mut lines = octets.split_inclusive(|it| *it == b'\n');
            let last = octets.len() - lines.next_back().unwrap().len();
            if at + 1 < last {
                assert!(verify("host", &changed, None, None).is_err(), "octet {at}");
            }
        }
        let second = octets.iter().position(|it| *it == b'\n').unwrap() + 1;
        for len in 0..octets.len() {
            let cut = verify("host", &octets[..len], None, None).unwrap();
            assert_eq!(cut.octets + cut.torn, len);
            assert_eq!(cut.torn == 0, len == 0 || octets[len - 1] == b'\n');
            let noted = verify("host", &octets[..len], Some(head), None);
            assert_eq!(noted, Err(Broken::NotWhatWasNoted { lines: 3 }));
        }
        let gap = verify("host", &octets[second..], None, None);
        assert_eq!(gap, Err(Broken::Changed { line: 1 }));
    }

    #[test]
    fn a_log_goes_on_after_a_torn_line() {
        let (mut octets, head) = log(&["one", "two"]);
        octets.extend_from_slice(b"0123 torn");
        let whole = verify("host", &octets, Some(head), None).unwrap();
        assert_eq!(whole.torn, 9);
        octets.truncate(whole.octets);
        let mut head = whole.head;
        octets.extend_from_slice(head.append("three").as_bytes());
        assert_eq!(verify("host", &octets, None, None).unwrap().head.lines, 3);
    }

    #[test]
    fn a_file_without_line_feed_is_no_torn_log() {
        let (octets, _) = log(&["one"]);
        let changed = Err(Broken::Changed { line: 1 });
        let long = [&octets[..octets.len() - 1], &[b'x'; LINE_MAX]].concat();
        for other in [&b"secret"[..], b"\0", &octets[1..20], &long] {
            assert_eq!(verify("host", other, None, None), changed);
        }
        assert_eq!(verify("target", &octets[..20], None, None), changed);
        let first = verify("host", &octets[..20], None, None).unwrap();
        assert_eq!((first.head.lines, first.torn), (0, 20));
    }

    #[test]
    fn a_long_text_is_cut() {
        let mut head = Head::start("host");
        let line = head.append(&"ä\u{7}".repeat(2_000));
        assert!(line.len() <= LINE_MAX && line.ends_with('\n'));
        assert_eq!(
            verify("host", line.as_bytes(), None, None).unwrap().head,
            head
        );
    }

    /// Whoever can write the file but has no keys of the agent: he can write lines anew after the
    /// last signature alone.
    #[test]
    fn a_signed_part_cannot_be_written_anew() {
        let keys = |number: u8| Keys {
            sealing: crypto::hpke::SecretKey::of(&[number; 32]),
            signing: crypto::ed25519::SigningKey::of(&[number; 32]),
        };
        let by = keys(1).identity().fingerprint();
        let make = |second: &str, signer: &Keys| {
            let mut head = Head::start("host");
            let mut log = head.append("one") + &head.append(second);
            let text = signed_text("host", head, signer, Calendar(5));
            log += &head.append(&text);
            log + &head.append("after")
        };
        let read = |log: &str| verify("host", log.as_bytes(), None, Some(by));
        let good = make("two", &keys(1));
        assert_eq!(read(&good).map(|it| it.signed), Ok(2));
        // Another agent's signature, and the agent's own over other lines.
        assert_eq!(
            read(&make("two", &keys(2))),
            Err(Broken::NotSigned { line: 3 })
        );
        let signature = good.lines().nth(2).unwrap().split_once(' ').unwrap().1;
        let mut head = Head::start("host");
        let forged = ["one", "forged", signature, "after"]
            .map(|it| head.append(it))
            .concat();
        assert_eq!(read(&forged), Err(Broken::NotSigned { line: 3 }));
        assert!(verify("host", forged.as_bytes(), None, None).is_ok());
        // Without the line, it is told that nothing is signed; a user's name makes no such line.
        let name = format!("at=1970-01-01T00:00:05Z role=host step=up user=\"{signature}\"");
        let mut head = Head::start("host");
        let plain = ["one", "forged", &name].map(|it| head.append(it)).concat();
        assert_eq!(read(&plain).map(|it| it.signed), Ok(0));
    }
}
