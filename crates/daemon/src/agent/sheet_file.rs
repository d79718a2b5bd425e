//! Reads a key sheet: from a file, or line by line as a user types it.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal as _, Read};
use std::path::Path;

use anyhow::{Context as _, bail};
use engine::agent::Handle;
use engine::agent::sheet::{Head, Key, SheetFault};
use zeroize::Zeroizing;

use super::keys_text;
use crate::{console, files};

/// Octets of a sheet at most.
const LEN_MAX: u64 = 1 << 20;
const START: &str = "CTA1:";

/// The name of a one-time key on a token, for people.
pub(in crate::agent) fn token_name(handle: Handle) -> String {
    format!("cta-{handle}")
}

/// The head of a sheet, and one of its keys. `number` counts the keys from 1.
pub(super) fn read(path: Option<&Path>, number: usize) -> anyhow::Result<(Head, Key)> {
    match path {
        Some(path) => {
            let context = || format!("cannot read {}", path.display());
            let file = File::open(path).with_context(context)?;
            files::check_given(&file, path).context(
                "a sheet is a secret; one on a stick that has no modes is read through a pipe: cat \
                 SHEET | caravan ... --sheet /dev/stdin",
            )?;
            let octets = whole(file).with_context(context)?;
            find(&octets[..], number, |_| false).with_context(|| path.display().to_string())
        }
        None => {
            let input = std::io::stdin().lock();
            let is_typed = input.is_terminal();
            if is_typed {
                console::complain("type the first line of the sheet, then that of one key");
            }
            // A line that is typed or piped is the one that is meant.
            find(input.take(LEN_MAX), 1, |fault| {
                if is_typed {
                    console::complain(format!("{fault}; once more"));
                }
                is_typed
            })
        }
    }
}

/// All of a file or pipe, in one buffer that does not grow, so that no copy of a secret stays
/// behind.
fn whole(file: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    // One octet more would be too long, and there is room to see the end.
    let mut octets = Zeroizing::new(Vec::with_capacity(LEN_MAX as usize + 64));
    match file.take(LEN_MAX + 1).read_to_end(&mut octets)? as u64 <= LEN_MAX {
        true => Ok(octets),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

/// Looks for lines of a sheet; other lines are for people. `wrong` hears what is wrong with a line,
/// and says whether it comes once more.
fn find(
    mut lines: impl BufRead,
    number: usize,
    wrong: impl Fn(&SheetFault) -> bool,
) -> anyhow::Result<(Head, Key)> {
    let (mut head, mut key, mut count) = (None, None, 0);
    let mut fault = None;
    while head.is_none() || key.is_none() {
        // One buffer that does not grow, so that no copy of a secret stays behind.
        let mut line = Zeroizing::new(String::with_capacity(4_096));
        let len = lines.by_ref().take(4_095).read_line(&mut line);
        if len.context("cannot read the sheet")? == 0 {
            break;
        }
        let text = line.trim();
        let Some(text) = start_of(text).and_then(|at| text.get(at..)) else {
            continue;
        };
        match (text.parse::<Head>(), text.parse::<Key>()) {
            (Ok(found), _) => head = Some(found),
            (_, Ok(found)) => {
                count += 1;
                if count == number {
                    key = Some(found);
                }
            }
            (Err(SheetFault::OtherKind), Err(is)) | (Err(is), _) => {
                // In a file each line has its number, whether it can be read or not: the next
                // one is another key.
                count += usize::from(head.is_some() && !wrong(&is));
                if count == number && key.is_none() {
                    return Err(is).with_context(|| format!("key {number}"));
                }
                fault = Some(is);
            }
        }
    }
    match (head, key, fault) {
        (Some(head), Some(key), _) => Ok((head, key)),
        (_, _, Some(fault)) => Err(fault.into()),
        (None, ..) => bail!("the sheet has no head: its first line with CTA1:"),
        (_, None, _) => {
            let keys = keys_text(count);
            bail!("the sheet has {keys}, none of number {number}")
        }
    }
}

/// Where a line's own text begins. People type lower case.
fn start_of(line: &str) -> Option<usize> {
    let mut places = line.as_bytes().windows(START.len());
    places.position(|it| it.eq_ignore_ascii_case(START.as_bytes()))
}

#[cfg(test)]
mod tests {
    use crypto::ed25519::VerifyKey;
    use crypto::hpke::PublicKey;
    use engine::agent::Digest;
    use engine::agent::identity::{Fingerprint, Identity};
    use engine::agent::sheet::Secret;
    use engine::time::Calendar;

    use super::*;

    fn sheet() -> String {
        let head = Head {
            host: Identity {
                sealing: PublicKey([1; 32]),
                signing: VerifyKey([2; 32]),
            },
            addresses: vec!["host.example:51516".into()],
            target: Fingerprint(Digest([3; 32])),
            not_after: Calendar(1_800_000_000),
        };
        let key = |octet: u8| Key {
            handle: Handle([octet; 16]),
            secret: Secret::OneTime([octet; 32]),
        };
        let lines = [4, 5].map(|octet| format!("{}. {}\n", octet - 3, *key(octet).to_line()));
        format!("Keys\n\n{}\n{}", head.to_line().unwrap(), lines.concat())
    }

    #[test]
    fn a_key_is_found_by_its_number_between_lines_for_people() {
        for number in [1, 2] {
            let (head, key) = find(sheet().as_bytes(), number, |_| false).unwrap();
            assert_eq!(head.addresses.len(), 1);
            assert_eq!(key.handle.0, [number as u8 + 3; 16]);
        }
        let said = find(sheet().as_bytes(), 3, |_| false)
            .err()
            .unwrap()
            .to_string();
        assert!(said.contains("has 2 keys"), "{said}");
    }

    #[test]
    fn a_sheet_that_others_may_read_is_refused() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt as _;
        let name = format!("caravan-agent-sheet-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, sheet()).unwrap();
        let read_with = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(Some(&path), 1).err().map(|it| format!("{it:#}"))
        };
        let said = read_with(0o644).expect("others may read it");
        assert!(
            said.contains("chmod 600") && said.contains("/dev/stdin"),
            "{said}"
        );
        assert_eq!(read_with(0o600), None);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_damaged_line_keeps_its_number() {
        let whole = sheet();
        let lines: Vec<&str> = whole.lines().filter(|line| line.contains(START)).collect();
        let damaged = lines[1].replacen(START, "CTA1:22", 1);
        let text = whole.replace(lines[1], &damaged);
        let said = find(text.as_bytes(), 1, |_| false).err().unwrap();
        assert!(format!("{said:#}").starts_with("key 1: "), "{said:#}");
        let (_, key) = find(text.as_bytes(), 2, |_| false).unwrap();
        assert_eq!(key.handle.0, [5; 16]);
        // A line that is typed once more is the same one.
        let (_, key) = find(text.as_bytes(), 1, |_| true).unwrap();
        assert_eq!(key.handle.0, [5; 16]);
    }

    #[test]
    fn lines_that_are_typed_in_lower_case_with_spaces_are_found() {
        let text = sheet().to_lowercase().replace("cta1:", "cta1: ");
        for number in [1, 2] {
            let (head, key) = find(text.as_bytes(), number, |_| false).unwrap();
            assert_eq!(head.addresses.len(), 1);
            assert_eq!(key.handle.0, [number as u8 + 3; 16]);
        }
        let mixed = "ünïcode\nCtA: no\n".to_owned() + &text.replace("cta1:", "CtA1:");
        assert!(find(mixed.as_bytes(), 2, |_| false).is_ok());
    }

    #[test]
    fn a_sheet_comes_through_a_pipe_and_an_endless_one_is_refused() {
        let (pipe, mut other) = io::pipe().unwrap();
        let writer = std::thread::spawn(move || {
            for part in sheet().as_bytes().chunks(7) {
                io::Write::write_all(&mut other, part).unwrap();
            }
        });
        // As a shell gives one to a program: a path.
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        let (_, key) = read(Some(Path::new(&path)), 2).unwrap();
        assert_eq!(key.handle.0, [5; 16]);
        writer.join().unwrap();
        let said = read(Some(Path::new("/dev/zero")), 1).err().unwrap();
        assert!(format!("{said:#}").contains("file too large"), "{said:#}");
    }

    #[test]
    fn a_half_written_key_is_a_typing_error() {
        let text = sheet();
        let cut = text.len() - 20;
        let said = find(&text.as_bytes()[..cut], 2, |_| false).err().unwrap();
        assert!(format!("{said:#}").contains("typing error"), "{said:#}");
        assert!(find(&b"Keys\n"[..], 1, |_| false).is_err());
    }
}
