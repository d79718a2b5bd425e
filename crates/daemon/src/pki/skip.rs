//! `caravan pki skip`: long-term Diffie-Hellman keys for SKIP.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use crypto::cert::long_term::{mkid, private_pem, public_pem};
use crypto::cert::{KeyMaterial, Request};
use crypto::dh::long_term::{Group, LongTermKey};
use crypto::hash::Hash;
use crypto::rand::Seed;
use wire::skip::{Name, Nsid};

use super::{Issued, hex, new_serial, open, random, write, write_index};

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
    /// Days of validity of the certificate
    #[arg(long, default_value_t = 730)]
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
    if let Some(there) = [&private, &public, &certificate]
        .into_iter()
        .find(|path| path.exists())
    {
        bail!("{} already exists: remove it first", there.display());
    }
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let mut random = Seed::new(*random()?).stream("long-term key", 0);
    let key = LongTermKey::generate(group, &mut random);
    if args.ca.is_some() {
        write(&certificate, &certify(args, &key, now)?, 0o644)?;
    }
    write(&private, &private_pem(&key), 0o600)?;
    write(&public, &public_pem(&key), 0o644)?;
    let names: String = names(&args.name, &key)
        .into_iter()
        .map(|(what, name)| format!("  {name}  ({what})\n"))
        .collect();
    let private = private.display();
    let public = public.display();
    Ok(format!(
        "{private} is the secret: it stays here\n{public} is for the peers\n\
         names of this key, as NSID/MKID:\n{names}"
    ))
}

fn certify(args: &SkipArgs, key: &LongTermKey, now: i64) -> anyhow::Result<String> {
    let folder = args.ca.as_ref().context("--ca")?;
    let (authority, mut index, _alone) = open(folder)?;
    let serial = new_serial()?;
    let is_place = args.name.parse::<Ipv4Addr>().is_ok() || args.name.contains('.');
    let alternative_names: Vec<String> = is_place.then(|| args.name.clone()).into_iter().collect();
    let certificate = authority.issue(&Request {
        subject: &format!("CN={}", args.name),
        alternative_names: &alternative_names,
        key: KeyMaterial::LongTerm(key),
        serial: &serial,
        now,
        days: args.days,
    })?;
    index.issued.push(Issued {
        serial: hex(&serial),
        name: args.name.clone(),
        not_after: now + i64::from(args.days) * 86_400,
        revoked_at: None,
    });
    write_index(folder, &index)?;
    Ok(certificate)
}

/// The names that the key may have: of its value, and of its owner's name.
fn names(name: &str, key: &LongTermKey) -> Vec<(&'static str, Name)> {
    let of_value = Name::new(Nsid::Md5PublicValue, &mkid(key.public()));
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
