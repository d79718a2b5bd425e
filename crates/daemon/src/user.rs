//! `caravan user`: the users that a gateway lets in by EAP.
//!
//! A password comes from the terminal or from standard input, never from arguments, which every
//! user of this machine can read.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use crypto::mschapv2::{MAX_PASSWORD_CHARS, NtHash};
use engine::eap::Users;
use nix::fcntl::{Flock, FlockArg};
use zeroize::Zeroizing;

use crate::user_file::{MAX_FILE, UserFile};
use crate::{files, typed};

/// What to do with the users.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add a user, or give one another password
    #[command(after_help = "Examples:\n  \
        caravan user add alice                    asks for the password on the terminal\n  \
        caravan user add alice < alice.password   takes its first line")]
    Add {
        /// Its name: letters, digits and . _ - @
        name: String,
        /// Where the users are
        #[command(flatten)]
        place: Place,
    },
    /// List the users
    List {
        /// Where the users are
        #[command(flatten)]
        place: Place,
    },
    /// Remove a user: `caravan reload` then ends its tunnels
    Remove {
        /// Its name
        name: String,
        /// Where the users are
        #[command(flatten)]
        place: Place,
    },
}

/// Where the users are.
#[derive(Debug, Args)]
pub struct Place {
    /// File of the users, which remote.users of a gateway's configuration names
    #[arg(short, long, value_name = "FILE", default_value = "/etc/caravan/users")]
    file: PathBuf,
}

/// Runs a command. Returns what it prints.
pub fn run(command: &Command) -> anyhow::Result<String> {
    match command {
        Command::Add { name, place } => add(name, &place.file),
        Command::List { place } => {
            let names = read(&place.file)?;
            let lines = names.names().map(|name| format!("{name}\n"));
            Ok(lines.collect())
        }
        Command::Remove { name, place } => remove(name, &place.file),
    }
}

fn add(name: &str, path: &Path) -> anyhow::Result<String> {
    Users::identity_of(name)?;
    let password = password(name)?;
    let hash = NtHash::of_password(&password);
    let folder = folder_of(path)?;
    let mut users = match read(path) {
        Err(fault) if is_missing(&fault) => UserFile::default(),
        other => other?,
    };
    let was_there = users.set(name, hash);
    write(&folder, path, &users)?;
    let what = match was_there {
        true => "has another password",
        false => "is a user",
    };
    Ok(format!(
        "{name} {what} of {}; `caravan reload` tells a running gateway\n{}",
        path.display(),
        advice(&password)
    ))
}

fn remove(name: &str, path: &Path) -> anyhow::Result<String> {
    let folder = folder_of(path)?;
    let mut users = read(path)?;
    if !users.remove(name) {
        bail!("there is no user {name} in {}", path.display());
    }
    write(&folder, path, &users)?;
    Ok(format!(
        "{name} is no user of {} any more; `caravan reload` ends its tunnels\n",
        path.display()
    ))
}

/// Typed twice on a terminal, or the first line of standard input.
fn password(name: &str) -> anyhow::Result<Zeroizing<String>> {
    let password = match std::io::stdin().is_terminal() {
        true => {
            let first = typed::ask(&format!("password of {name}: "))?;
            let again = typed::ask("the same again: ")?;
            if first != again {
                bail!("the passwords differ");
            }
            first
        }
        false => typed::given().context("standard input has no password in its first line")?,
    };
    if password.chars().count() > MAX_PASSWORD_CHARS {
        bail!("a password has at most {MAX_PASSWORD_CHARS} characters");
    }
    Ok(password)
}

/// A shorter password is guessed fast by whoever has seen a login, or the file.
const ADVISED_CHARS: usize = 8;

/// A line about a password that is too short.
fn advice(password: &str) -> String {
    match password.chars().count() {
        ADVISED_CHARS.. => String::new(),
        count => format!(
            "warning: a password of {count} character{} is easily guessed: {ADVISED_CHARS} random \
             ones at least, better 16\n",
            if count == 1 { "" } else { "s" }
        ),
    }
}

fn is_missing(fault: &anyhow::Error) -> bool {
    let kind = fault.downcast_ref::<std::io::Error>();
    kind.is_some_and(|it| it.kind() == ErrorKind::NotFound)
}

fn read(path: &Path) -> anyhow::Result<UserFile> {
    let octets = files::read_private(path, MAX_FILE).map(Zeroizing::new);
    let octets = octets.with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = UserFile::parse(&octets);
    parsed.map_err(|text| anyhow::anyhow!("{}: {text}", path.display()))
}

/// The folder of a file, which nobody else may change meanwhile by this command.
fn folder_of(path: &Path) -> anyhow::Result<Flock<File>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let opened = files::open_folder(folder);
    let is_missing = matches!(&opened, Err(fault) if fault.kind() == ErrorKind::NotFound);
    let hint = match is_missing {
        true => ": name another file by --file FILE, or make the folder",
        false => "",
    };
    let opened = opened.with_context(|| format!("cannot open {}{hint}", folder.display()))?;
    let locked = Flock::lock(opened, FlockArg::LockExclusive);
    locked.map_err(|(_, fault)| anyhow::anyhow!("cannot lock {}: {fault}", folder.display()))
}

fn write(folder: &File, path: &Path, users: &UserFile) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} is no file", path.display()))?;
    let text = users.to_text();
    files::replace_durably(folder, name, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_password_is_taken_with_a_warning() {
        assert_eq!(advice("12345678"), "");
        assert!(advice("1234567").starts_with("warning: a password of 7 characters"));
        assert!(advice("1").starts_with("warning: a password of 1 character is easily"));
        // Characters count, not octets.
        assert!(!advice("éééé").is_empty());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_with_the_remedy() {
        let fault = folder_of(Path::new("/nonexistent/caravan/users")).expect_err("no folder");
        let said = format!("{fault:#}");
        assert!(said.contains("cannot open /nonexistent/caravan: name another file by --file"));
        assert!(said.contains("or make the folder: No such file"), "{said}");
    }
}
