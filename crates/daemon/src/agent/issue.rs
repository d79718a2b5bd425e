//! `caravan tunnel-agent issue` and `make`: one-time keys, on a sheet or on a token.
//!
//! Whoever makes a key knows its secret. `issue` makes keys for a user where Host is; `make` makes
//! them where the user is, and Host is told their public halves alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use crypto::ed25519::{SigningKey, VerifyKey};
use crypto::hash::Hash;
use engine::agent::host::{Half, Record};
use engine::agent::identity::Fingerprint;
use engine::agent::ppk::KeyPpk;
use engine::agent::sheet::{Head, Key, Secret};
use engine::agent::{Handle, legacy};
use engine::time::Calendar;
use zeroize::Zeroizing;

use super::client::user_id;
use super::clock::calendar;
use super::paper::{Format, Sheet};
use super::store::{Database, Store, StoreRole};
use super::token::TokenHelper;
use super::{hygiene, key_file, keys_text};
use crate::config::agent::HostConfig;
use crate::config::values::Span;
use crate::config::wireless::octets_of;
use crate::console;
use crate::files;
use crate::token::TokenArgs;

/// Keys of one command.
const COUNT_MAX: u32 = 1_000;
/// Octets of a file of public halves: a line has 162.
const PUBLIC_MAX: u64 = 200 * COUNT_MAX as u64;
/// The longest time that a key waits for its use: a sheet is lost sooner.
const LIFETIME_MAX_DAYS: u64 = 366;

/// Options of `caravan tunnel-agent issue`.
#[derive(Clone, Debug, clap::Args)]
pub struct IssueArgs {
    /// Host's file
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// The user's name
    #[arg(long, value_name = "NAME", value_parser = user_id)]
    user: String,
    /// How many keys
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX))
    )]
    count: u32,
    /// Name of the Target in the file; not needed if there is one
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// How long the keys may wait for their use
    #[arg(long, value_name = "SPAN", default_value = "30d", value_parser = Span::parse)]
    valid: Span,
    /// The sheet: a new file (mode 0600)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How the sheet looks
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Public halves that `make` has written: no key is made here, and the sheet is its head
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "module", "legacy"])]
    public: Option<PathBuf>,
    /// A new file with the keys' digests, for `member enrol` at Target
    #[arg(long, value_name = "FILE")]
    digests: Option<PathBuf>,
    /// Shared pairs of the paper's own form, which Host can read along
    #[arg(long, conflicts_with = "module")]
    legacy: bool,
    #[command(flatten)]
    token: TokenArgs,
}

/// Options of `caravan tunnel-agent make`.
#[derive(Clone, Debug, clap::Args)]
pub struct MakeArgs {
    /// How many keys
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX))
    )]
    count: u32,
    /// The sheet, without a head: a new file (mode 0600)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// A new file with the public halves, for `issue --public` at Host
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
    #[command(flatten)]
    token: TokenArgs,
}

/// A new key, and what Host has of it.
struct Made {
    key: Key,
    half: Half,
    /// What Host gets for the tunnel's PPK.
    ppk: Option<KeyPpk>,
}

/// Makes keys, writes them into the database and on a sheet. Returns the text to print.
pub(super) async fn issue(
    args: &IssueArgs,
    config: &HostConfig,
    folder: &Path,
) -> anyhow::Result<String> {
    hygiene::keep_private();
    let head = head_of(args, config)?;
    let not_after = head.not_after;
    if args.legacy {
        ensure!(
            config.is_legacy,
            "Host's file does not allow shared pairs: legacy = true"
        );
        for weakness in legacy::WEAKNESSES {
            console::complain(format!("warning: {weakness}"));
        }
    }
    let database = Database::parse(&config.database, folder)?;
    let mut store = Store::open(&database, StoreRole::Administrator).await?;
    let mut token = TokenHelper::open(&args.token).await?;
    let (keys, halves) = keys_of(args, token.as_mut()).await?;
    let records: Vec<(Handle, Record)> = halves
        .into_iter()
        .map(|(handle, half, ppk)| {
            let record = Record::new(half, args.user.clone(), not_after);
            (handle, Record { ppk, ..record })
        })
        .collect();
    let sheet = Sheet {
        head: &head,
        keys: &keys,
    };
    let rendered = sheet.render(args.format)?;
    if let Err(fault) = key_file::write_new(&args.out, rendered.as_bytes()) {
        discard(token.as_mut(), &records).await;
        return Err(fault);
    }
    let issued = async {
        if let Some(path) = &args.digests {
            key_file::write_new(path, digests(&records).as_bytes())?;
        }
        anyhow::Ok(store.issue(&records).await?)
    };
    if let Err(fault) = issued.await {
        // A sheet of keys that do not exist would mislead.
        let _ = std::fs::remove_file(&args.out);
        discard(token.as_mut(), &records).await;
        return Err(fault);
    }
    Ok(format!(
        "{} for {}, valid until {}: {}\n",
        keys_text(records.len()),
        args.user,
        not_after,
        args.out.display()
    ))
}

fn head_of(args: &IssueArgs, config: &HostConfig) -> anyhow::Result<Head> {
    let days = args.valid.0.as_secs() / 86_400;
    ensure!(
        days <= LIFETIME_MAX_DAYS && args.valid.0.as_secs() >= 60,
        "--valid: from 1 minute to {LIFETIME_MAX_DAYS} days"
    );
    let seconds = i64::try_from(args.valid.0.as_secs())?;
    let not_after = Calendar(calendar().0.saturating_add(seconds));
    let head = Head {
        host: key_file::load(&config.keys_file)?.identity(),
        addresses: config.addresses.clone(),
        target: target_of(args, config)?,
        not_after,
    };
    ensure!(
        !head.addresses.is_empty(),
        "Host's file has no addresses for the sheet: addresses = [\"host.example:51516\"]"
    );
    Ok(head)
}

fn target_of(args: &IssueArgs, config: &HostConfig) -> anyhow::Result<Fingerprint> {
    let names = || {
        config
            .targets
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = match &args.target {
        Some(name) => config
            .targets
            .get(name)
            .with_context(|| format!("there is no [targets.{name}]: there are {}", names()))?,
        None => {
            let mut all = config.targets.values();
            match (all.next(), all.next()) {
                (Some(one), None) => one,
                (None, _) => bail!("Host's file has no [targets.NAME]"),
                _ => bail!(
                    "there are several targets ({}): --target names one",
                    names()
                ),
            }
        }
    };
    Ok(found.0.fingerprint())
}

type Keys = (Vec<Key>, Vec<Public>);
/// What Host gets of a key.
type Public = (Handle, Half, Option<KeyPpk>);

async fn keys_of(args: &IssueArgs, token: Option<&mut TokenHelper>) -> anyhow::Result<Keys> {
    let Some(path) = &args.public else {
        return made(args.count, token, args.legacy).await;
    };
    Ok((Vec::new(), public_halves(path)?))
}

/// Reads a file of public halves once. With what they give for PPKs it is a secret, and what was
/// read must be in a file that is one: the mode and owner of the open file count.
fn public_halves(path: &Path) -> anyhow::Result<Vec<Public>> {
    let context = || format!("cannot read {}", path.display());
    let file = files::open_plain(path).with_context(context)?;
    let text = files::secret_of(&file, PUBLIC_MAX).with_context(context)?;
    let halves = halves_of(&text, path)?;
    if halves.iter().any(|(_, _, ppk)| ppk.is_some()) {
        files::check_secret(&file, path).with_context(context)?;
    }
    Ok(halves)
}

/// Public halves, a line each. A half with which anybody could sign is refused.
fn halves_of(text: &str, path: &Path) -> anyhow::Result<Vec<Public>> {
    let halves = text.lines().map(|line| {
        let (handle, half, ppk) = public_of(line).with_context(|| {
            format!(
                "{}: a line is not HANDLE:KEY or HANDLE:KEY:PPK",
                path.display()
            )
        })?;
        ensure!(
            half.is_sound(),
            "{}: anybody could sign with the key of {handle}: it is of low order, or not written \
             as RFC 8032 says",
            path.display()
        );
        Ok((handle, Half::Public(half), ppk))
    });
    let halves: Vec<Public> = halves.collect::<anyhow::Result<_>>()?;
    ensure!(
        (1..=COUNT_MAX as usize).contains(&halves.len()),
        "{} has {}, 1 to {COUNT_MAX} are possible",
        path.display(),
        keys_text(halves.len())
    );
    Ok(halves)
}

fn public_of(line: &str) -> Option<(Handle, VerifyKey, Option<KeyPpk>)> {
    let (handle, rest) = line.trim().split_once(':')?;
    let (key, ppk) = match rest.split_once(':') {
        Some((key, ppk)) => (key, Some(ppk)),
        None => (rest, None),
    };
    let handle = octets_of(handle)?.as_slice().try_into().ok()?;
    let key = octets_of(key)?.as_slice().try_into().ok()?;
    let ppk = match ppk.map(octets_of) {
        Some(octets) => Some(KeyPpk::of_octets(octets?.as_slice().try_into().ok()?)),
        None => None,
    };
    Some((Handle(handle), VerifyKey(key), ppk))
}

/// A line for Host: everybody may know the key's public half, and only Host the third part.
fn public_line((handle, half, ppk): &Public) -> Zeroizing<String> {
    let Half::Public(key) = half else {
        return Zeroizing::default();
    };
    let mut line = Zeroizing::new(String::with_capacity(200));
    let _ = write!(line, "{handle}:{}", hex(&key.0));
    if let Some(ppk) = ppk {
        line.push(':');
        for octet in ppk.octets() {
            let _ = write!(line, "{octet:02x}");
        }
    }
    line.push('\n');
    line
}

async fn made(
    count: u32,
    mut token: Option<&mut TokenHelper>,
    is_legacy: bool,
) -> anyhow::Result<Keys> {
    let mut all = (Vec::new(), Vec::new());
    for _ in 0..count {
        let Made { key, half, ppk } = make_one(token.as_deref_mut(), is_legacy).await?;
        all.1.push((key.handle, half, ppk));
        all.0.push(key);
    }
    Ok(all)
}

async fn make_one(token: Option<&mut TokenHelper>, is_legacy: bool) -> anyhow::Result<Made> {
    let handle = Handle(*key_file::random()?);
    let (secret, half) = match token {
        Some(token) => (Secret::OnToken, Half::Public(token.make(handle).await?)),
        None => {
            let secret = key_file::random::<32>()?;
            match is_legacy {
                true => (Secret::Shared(*secret), Half::Shared(*secret)),
                false => {
                    let public = SigningKey::of(&secret).public();
                    (Secret::OneTime(*secret), Half::Public(public))
                }
            }
        }
    };
    let key = Key { handle, secret };
    let ppk = key.ppk();
    Ok(Made { key, half, ppk })
}

async fn discard(token: Option<&mut TokenHelper>, records: &[(Handle, Record)]) {
    let Some(token) = token else { return };
    for (handle, _) in records {
        // The fault that led here is told; a key without a record is of no use.
        let _ = token.destroy(*handle).await;
    }
}

/// SHA-256 of each public half, a line each. A shared pair has none that Target could check.
fn digests(records: &[(Handle, Record)]) -> String {
    let lines = records.iter().filter_map(|(_, record)| match &record.half {
        Half::Public(key) => Some(format!(
            "{}\n",
            hex(Hash::Sha256.digest(&[&key.0]).as_ref())
        )),
        Half::Shared(_) => None,
    });
    lines.collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Makes keys where their user is. Returns the text to print.
pub(super) async fn make(args: &MakeArgs) -> anyhow::Result<String> {
    hygiene::keep_private();
    let mut token = TokenHelper::open(&args.token).await?;
    let (keys, halves) = made(args.count, token.as_mut(), false).await?;
    let mut public = Zeroizing::new(String::with_capacity(200 * halves.len()));
    for one in &halves {
        public.push_str(&public_line(one));
    }
    let mut text = Zeroizing::new(String::with_capacity(200 * keys.len()));
    for (at, key) in keys.iter().enumerate() {
        text.push_str(&format!("{}. ", at + 1));
        text.push_str(&key.to_line());
        text.push('\n');
    }
    key_file::write_new(&args.out, text.as_bytes())?;
    key_file::write_new(&args.public, public.as_bytes())?;
    Ok(format!(
        "{} has {} and no head yet: give {} to Host (`issue --public`), and append the sheet \
         that it makes\n",
        args.out.display(),
        keys_text(keys.len()),
        args.public.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::wait;

    #[test]
    fn a_public_half_reads_back_and_belongs_to_its_secret() {
        let Made { key, half, ppk } = wait(make_one(None, false)).unwrap();
        let Half::Public(public) = &half else {
            panic!("Host has the public half alone");
        };
        assert_eq!(key.signing().unwrap().public(), *public);
        let line = format!("{}:{}", key.handle, hex(&public.0));
        let (handle, read, none) = public_of(&line).unwrap();
        assert!(handle == key.handle && read == *public && none.is_none());
        let whole = public_line(&(handle, half.clone(), ppk.clone()));
        let (handle, read, same) = public_of(&whole).unwrap();
        assert!(handle == key.handle && read == *public && same.is_some());
        assert!(same == ppk && ppk == key.ppk());
        for wrong in ["", "00:00", &line[1..], &format!("{line}0")] {
            assert!(public_of(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_public_half_with_which_anybody_signs_is_refused() {
        let (path, handle) = (Path::new("public.txt"), "ab".repeat(16));
        let line = |half: &str| format!("{handle}:{half}\n");
        let good = hex(&SigningKey::of(&[1; 32]).public().0);
        assert_eq!(halves_of(&line(&good), path).unwrap().len(), 1);
        let neutral = format!("01{}", "00".repeat(31));
        let said = halves_of(&(line(&good) + &line(&neutral)), path).err();
        assert!(said.unwrap().to_string().contains("anybody could sign"));
    }

    #[test]
    fn a_file_with_ppks_is_a_secret_and_one_of_public_halves_is_not() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let name = format!("caravan-agent-public-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("public.txt");
        let Made { key, half, ppk } = wait(make_one(None, false)).unwrap();
        let plain = public_line(&(key.handle, half.clone(), None));
        let secret = public_line(&(key.handle, half, ppk));
        let read = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).unwrap();
            public_halves(&path).map(|it| it.len())
        };
        let told = |read: anyhow::Result<usize>| format!("{:#}", read.unwrap_err());
        assert_eq!(read(&plain, 0o644).unwrap(), 1);
        assert_eq!(read(&secret, 0o600).unwrap(), 1);
        let said = told(read(&secret, 0o640));
        assert!(said.contains("chmod 600"), "{said}");
        let link = folder.join("link.txt");
        symlink(&path, &link).unwrap();
        assert!(read(&secret, 0o600).is_ok() && public_halves(&link).is_err());
        let long = plain.repeat(PUBLIC_MAX as usize / plain.len() + 1);
        assert!(long.len() as u64 > PUBLIC_MAX);
        assert!(told(read(&long, 0o600)).contains("too large"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn handles_differ_and_a_digest_is_of_the_public_half() {
        let (keys, halves) = wait(made(20, None, false)).unwrap();
        let handles: std::collections::BTreeSet<_> = keys.iter().map(|it| it.handle).collect();
        assert_eq!(handles.len(), 20);
        let records: Vec<_> = halves
            .into_iter()
            .map(|(handle, half, _)| (handle, Record::new(half, "alice".into(), Calendar(1))))
            .collect();
        let public = keys[0].signing().unwrap().public();
        let digest = hex(Hash::Sha256.digest(&[&public.0]).as_ref());
        assert_eq!(digests(&records).lines().next(), Some(&digest[..]));
        assert_eq!(digests(&records).lines().count(), 20);
    }
}
