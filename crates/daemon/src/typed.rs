//! A PIN or a password: from a file, a descriptor or standard input, or typed on the terminal.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::termios::{
    LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

use crate::files;

/// Octets of a secret, more than any token takes, and of a password with as many characters as
/// MSCHAPv2 has.
const MOST: usize = 1024;
/// ^C and ^D, as the terminal gives them while it makes no signals of them.
const CANCELS: [u8; 2] = [3, 4];

/// The first line of a file that nobody else may read, or of a pipe.
pub(crate) fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut file = File::open(path)?;
    files::check_given(&file, path)?;
    line(&mut file, |octet| octet == b'\n')
}

/// Whether [`read`] would take it, as far as can be seen without a look into a pipe.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match path.metadata()?.is_file() {
        true => files::check_given(&File::open(path)?, path),
        false => Ok(()),
    }
}

/// The first line of standard input.
pub(crate) fn given() -> io::Result<Zeroizing<String>> {
    // Octet by octet, and past the buffer of the library, which keeps what it reads.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    line(&mut input, |octet| octet == b'\n')
}

/// Asks on the terminal of this process, whatever its standard input is. Nothing is shown.
pub(crate) fn ask(prompt: &str) -> io::Result<Zeroizing<String>> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    // Silent first: what is typed as soon as the prompt is seen is neither shown nor lost.
    let silent = Silent::begin(terminal.try_clone()?)?;
    write!(terminal, "{prompt}")?;
    let mut is_cancelled = false;
    let typed = line(&mut terminal, |octet| {
        is_cancelled |= CANCELS.contains(&octet);
        is_cancelled || octet == b'\n'
    });
    drop(silent);
    writeln!(terminal)?;
    match is_cancelled {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => typed,
    }
}

fn line(
    source: &mut impl Read,
    mut is_end: impl FnMut(u8) -> bool,
) -> io::Result<Zeroizing<String>> {
    let mut octets = Zeroizing::new([0u8; MOST + 1]);
    let mut len = 0;
    while len < octets.len() && source.read(&mut octets[len..=len])? > 0 && !is_end(octets[len]) {
        len += 1;
    }
    if len > MOST {
        return Err(io::Error::other("it is too long"));
    }
    let text = core::str::from_utf8(&octets[..len]).map_err(io::Error::other)?;
    let text = text.trim_end_matches('\r');
    match text.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is empty")),
        false => Ok(Zeroizing::new(text.to_owned())),
    }
}

/// A terminal that neither shows what is typed nor makes signals of it, until this is dropped.
struct Silent {
    terminal: File,
    before: Termios,
}

impl Silent {
    fn begin(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent
            .local_flags
            .remove(LocalFlags::ECHO | LocalFlags::ISIG);
        // ^C ends the line: nobody has to press Enter after it.
        silent.control_chars[SpecialCharacterIndices::VEOL as usize] = CANCELS[0];
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = tcsetattr(&self.terminal, SetArg::TCSAFLUSH, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8]) -> Option<String> {
        let read = line(&mut &*text, |octet| octet == b'\n').ok();
        read.map(|it| it.to_string())
    }

    #[test]
    fn a_secret_is_the_first_line_and_has_a_limit() {
        assert_eq!(of(b"1234\nnext").as_deref(), Some("1234"));
        assert_eq!(of(b"12 34\r\n").as_deref(), Some("12 34"));
        assert_eq!(of(b"1234").as_deref(), Some("1234"));
        assert_eq!(of(b"\n"), None);
        assert_eq!(of(b""), None);
        assert_eq!(of(b"\xff\n"), None);
        assert_eq!(of(&[b'1'; MOST]), Some("1".repeat(MOST)));
        assert_eq!(of(&[b'1'; MOST + 1]), None);
    }
}
