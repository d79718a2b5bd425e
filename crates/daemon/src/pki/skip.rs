//! `caravan pki skip` and `skip-check`: long-term Diffie-Hellman keys for SKIP, in files or on a
//! token.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use crypto::cert::long_term::{mkid, private_pem, public_pem, read_private, read_public};
use crypto::cert::{KeyMaterial, Request};
use crypto::dh::long_term::{Group, LongTermKey};
use crypto::hash::Hash;
use crypto::rand::Seed;
use wire::skip::{Name, Nsid};
use zeroize::Zeroizing;

use super::validity::{Validity, days};
use super::{Issued, MAX_KEY, hex, new_serial, open, random, read, write, write_index};
use crate::files;
use crate::token::TokenArgs;

/// `caravan pki skip`
#[derive(Debug, Args)]
pub struct SkipArgs {
    /// Name of the files
    #[arg(long)]
    name: String,
    /// Group of the key
    #[arg(long, value_enum, default_value_t = GroupWord::X25519)]
    group: GroupWord,
    /// Allow a group of SKIP itself: its algorithms are legacy
    #[arg(long)]
    legacy: bool,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Also issue a certificate; the authority's folder
    #[arg(long, value_name = "DIR")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    token: TokenArgs,
    /// Days of validity of the certificate
    #[arg(long, default_value_t = 730, value_parser = days)]
    days: u32,
}

/// The groups of long-term keys.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GroupWord {
    /// Curve25519, for skip-x25519
    X25519,
    /// SKIP's prime of 2048 bits
    Skip2048,
    /// SKIP's prime of 1024 bits
    Skip1024,
}

impl GroupWord {
    fn group(self) -> Group {
        match self {
            Self::X25519 => Group::Curve25519,
            Self::Skip2048 => Group::Skip2048,
            Self::Skip1024 => Group::Skip1024,
        }
    }
}

/// Makes the key, its public value, and with an authority its certificate.
pub(super) fn run(args: &SkipArgs, now: i64) -> anyhow::Result<String> {
    crate::control::check_name(&args.name)
        .or_else(|error| args.name.parse::<Ipv4Addr>().map(drop).map_err(|_| error))
        .context("--name")?;
    let group = args.group.group();
    if group != Group::Curve25519 && !args.legacy {
        bail!("this group serves only SKIP's own algorithms, which are legacy: add --legacy");
    }
    let place = |end: &str| args.out.join(format!("{}.skip.{end}", args.name));
    let (private, public, certificate) = (place("key"), place("pub"), place("pem"));
    let mut all = [&private, &public, &certificate].into_iter();
    if let Some(there) = all.find(|path| path.exists()) {
        bail!("{} already exists: remove it first", there.display());
    }
    let token = args.token.open()?;
    if token.is_some() && group != Group::Curve25519 {
        bail!("a token keeps only keys on Curve25519");
    }
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let (value, secret) = match token {
        Some(token) => (token.generate(&args.name)?, "the token".to_owned()),
        None => {
            let mut random = Seed::new(*random()?).stream("long-term key", 0);
            let key = LongTermKey::generate(group, &mut random);
            write(&private, &private_pem(&key), 0o600)?;
            (key.public().to_vec(), private.display().to_string())
        }
    };
    write(&public, &public_pem(group, &value), 0o644)?;
    let mut shorter = String::new();
    if let Some(folder) = &args.ca {
        let (made, told) = certify(args, folder, &value, now)?;
        write(&certificate, &made, 0o644)?;
        shorter = told;
    }
    let names: String = names(&args.name, &value)
        .into_iter()
        .map(|(what, name)| format!("  {name}  ({what})\n"))
        .collect();
    Ok(format!(
        "{secret} has the secret: it stays there\n{} is for the peers\n\
         names of this key, as NSID/MKID:\n{names}{shorter}",
        public.display()
    ))
}

/// The certificate, and a line if it ends earlier than was asked for.
fn certify(
    args: &SkipArgs,
    folder: &Path,
    value: &[u8],
    now: i64,
) -> anyhow::Result<(String, String)> {
    let (authority, mut index, _alone) = open(folder)?;
    let validity = Validity::within(&authority, args.days, now)?;
    let serial = new_serial()?;
    let is_place = args.name.parse::<Ipv4Addr>().is_ok() || args.name.contains('.');
    let alternative_names: Vec<String> = is_place.then(|| args.name.clone()).into_iter().collect();
    let certificate = authority.issue(&Request {
        subject: &format!("CN={}", args.name),
        alternative_names: &alternative_names,
        key: KeyMaterial::LongTerm {
            group: args.group.group(),
            public: value,
        },
        serial: &serial,
        now,
        days: validity.days,
    })?;
    index.issued.push(Issued {
        serial: hex(&serial),
        name: args.name.clone(),
        not_after: validity.end(now),
        revoked_at: None,
    });
    write_index(folder, &index)?;
    Ok((certificate, validity.told))
}

/// `caravan pki skip-check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Our secret: NAME.skip.key, or with --module the name of the key on the token
    own: String,
    /// The peer's public value: NAME.skip.pub or NAME.skip.pem
    peer: PathBuf,
    #[command(flatten)]
    token: TokenArgs,
}

/// What both ends of a pair can compare: a few octets of a hash of their secret.
pub(super) fn check(args: &CheckArgs) -> anyhow::Result<String> {
    let peer = read(&args.peer)?;
    let (group, peer) = read_public(&peer).with_context(|| args.peer.display().to_string())?;
    let (own, shared) = match args.token.open()? {
        Some(_) if group != Group::Curve25519 => bail!("a token keeps only keys on Curve25519"),
        Some(token) => token.agree(&args.own, &peer)?,
        None => {
            let path = Path::new(&args.own);
            let text = files::read_secret(path, MAX_KEY)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let key = read_private(&text).with_context(|| args.own.clone())?;
            if key.group() != group {
                bail!("the two keys are of different groups");
            }
            let shared = key.agree(&peer)?;
            (key.public().to_vec(), Zeroizing::new(*shared.low_256()))
        }
    };
    let digest = Hash::Sha256.digest(&[CHECKED, &shared[..]]);
    Ok(format!(
        "own key    8/{}\npeer's key 8/{}\nthe pair   {}  (the other end must print the same)\n",
        hex(&mkid(&own)),
        hex(&mkid(&peer)),
        hex(&digest.as_ref()[..CHECK_BYTES])
    ))
}

/// What the hash of a check value starts with.
const CHECKED: &[u8] = b"caravan pki skip-check";
const CHECK_BYTES: usize = 8;

/// The names that the key may have: of its value, and of its owner's name.
fn names(name: &str, value: &[u8]) -> Vec<(&'static str, Name)> {
    let of_value = Name::new(Nsid::Md5PublicValue, &mkid(value));
    let of_dns = || {
        let digest = Hash::Md5.digest(&[name.as_bytes()]);
        Name::new(Nsid::Md5Dns, digest.as_ref())
    };
    let of_owner = match name.parse::<Ipv4Addr>() {
        Ok(address) => Some(("home address", Name::ipv4(address))),
        Err(_) if name.contains('.') => of_dns().map(|name| ("MD5 of the DNS name", name)),
        Err(_) => None,
    };
    let of_value = of_value.map(|name| ("MD5 of the public value", name));
    of_value.into_iter().chain(of_owner).collect()
}
