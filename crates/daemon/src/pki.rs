//! `caravan pki`: a small authority in a folder.
//!
//! The folder contains `ca.pem`, `ca.key` (mode 0600), `crl.pem` and `index.json`, which lists
//! every issued certificate. `bundle.rs` writes a ready configuration for a client, `profile.rs`
//! what a phone imports.

mod bundle;
mod combination;
mod profile;
mod skip;
mod validity;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use crypto::cert::{
    Authority, Certificate, KeyMaterial, Request, RevokedEntry, SigningKey, read_serial,
};
use crypto::ml_dsa::MlDsa;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{files, sys};
use profile::Made;
use validity::{Validity, days, warnings};

/// Serial numbers are random, so that nobody can predict a certificate (RFC 5280 §4.1.2.2:
/// positive, at most 20 bytes).
const SERIAL_BYTES: usize = 16;
/// Of a new RSA key, if nothing else is said.
const RSA_BITS: u32 = 2048;
/// Octets of the authority's key.
const MAX_KEY: u64 = 64 << 10;

/// What the authority should do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an authority in a new folder
    #[command(after_help = "Example:\n  \
        caravan pki ca --subject \"C=GR, O=Example, CN=Example VPN\" --out /etc/caravan/pki")]
    Ca(CaArgs),
    /// Issue a certificate, a complete client configuration, or a profile for a phone
    #[command(after_help = "Examples:\n  \
        A gateway:  caravan pki issue --ca pki --name sg.example --san 192.0.2.1\n  \
        A client:   caravan pki issue --ca pki --name ms1 --bundle --gateway sg.example \\\n    \
        --remote-ts 10.10.0.0/24\n              \
        then `caravan up -c ms1/ms1.toml` on the client\n  \
        A phone:    caravan pki issue --ca pki --name phone1 --profile apple \\\n    \
        --gateway sg.example\n  \
        An existing key:  caravan pki issue --ca pki --name box.example --csr box.csr")]
    Issue(Box<IssueArgs>),
    /// Revoke a certificate, named by its file or serial number, and renew crl.pem
    Revoke {
        /// The authority's folder
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// File in PEM, or serial number in hexadecimal
        certificate: String,
        /// Days that the list is valid
        #[arg(long, default_value_t = 30, value_parser = days)]
        days: u32,
    },
    /// Renew crl.pem
    Crl {
        /// The authority's folder
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Days that the list is valid
        #[arg(long, default_value_t = 30, value_parser = days)]
        days: u32,
    },
    /// Make a long-term Diffie-Hellman key for SKIP, and print its names
    #[command(after_help = "Examples:\n  \
        caravan pki skip --name 10.18.3.17\n  \
        With a certificate:  caravan pki skip --name fw.example --ca pki\n  \
        On a token:          caravan pki skip --name ms1 --module libsofthsm2.so \\\n    \
        --token caravan --pin-file pin")]
    Skip(skip::SkipArgs),
    /// Print a value by which two ends see that their keys for SKIP belong together
    SkipCheck(skip::CheckArgs),
    /// Show what a PEM file contains
    Show {
        /// Certificate, request, revocation list or key
        file: PathBuf,
    },
}

/// `caravan pki ca`
#[derive(Debug, Args)]
pub struct CaArgs {
    /// Name of the authority, such as "C=GR, O=Example, CN=Example VPN"
    #[arg(long)]
    subject: String,
    /// New folder of the authority
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Bits of the RSA key: 2048, 3072, 4096
    #[arg(long, default_value_t = 3072)]
    bits: u32,
    #[command(flatten)]
    kind: KeyKind,
    /// Days of validity
    #[arg(long, default_value_t = 3650, value_parser = days)]
    days: u32,
}

/// `caravan pki issue`
#[derive(Debug, Args)]
pub struct IssueArgs {
    /// The authority's folder
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// Name of the files. Without --subject, the subject is CN=NAME. A host name, an address or a
    /// mail address also becomes an alternative name
    #[arg(long)]
    name: String,
    /// Subject, such as "C=GR, O=Example, CN=ms1"
    #[arg(long)]
    subject: Option<String>,
    /// More names: addresses, host names, mail addresses
    #[arg(long, value_name = "NAME")]
    san: Vec<String>,
    /// An existing public or private key in PEM; without it, a new key is made
    #[arg(long, value_name = "FILE", conflicts_with = "csr")]
    key: Option<PathBuf>,
    /// A certificate request in PEM, used for its key only; names come from this command line
    #[arg(long, value_name = "FILE")]
    csr: Option<PathBuf>,
    /// Certify the names in the request (`caravan pki show` shows them); then --name only names the
    /// file
    #[arg(long, requires = "csr", conflicts_with_all = ["subject", "san"])]
    accept_names: bool,
    /// Folder for the files; a bundle becomes a folder NAME in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Bits of a new RSA key: 2048, 3072, 4096; default: 2048
    #[arg(long)]
    bits: Option<u32>,
    #[command(flatten)]
    kind: KeyKind,
    /// Days of validity, no more than the authority has left
    #[arg(long, default_value_t = 730, value_parser = days)]
    days: u32,
    /// Write a complete client configuration
    #[arg(long, requires = "gateway", conflicts_with_all = ["key", "csr"])]
    bundle: bool,
    /// Write what a device imports that has no Caravan
    #[arg(
        long,
        value_name = "DEVICE",
        requires = "gateway",
        conflicts_with_all = ["key", "csr", "bundle", "transport", "aggressive", "ml_dsa"]
    )]
    profile: Option<profile::Device>,
    /// In a profile: log in with this user's name and password (EAP-MSCHAPv2), without a
    /// certificate
    #[arg(
        long,
        value_name = "NAME",
        requires = "profile",
        conflicts_with = "bundle"
    )]
    user: Option<String>,
    #[command(flatten)]
    client: bundle::Client,
}

/// The kind of a new key.
#[derive(Debug, Args)]
struct KeyKind {
    /// A new key of ML-DSA (FIPS 204) instead of RSA, against quantum computers: 44, 65 or 87.
    /// IKEv1 and most other devices do not have it
    #[arg(long, value_name = "SET", conflicts_with = "bits")]
    ml_dsa: Option<Set>,
}

/// The parameter sets of ML-DSA.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Set {
    #[value(name = "44")]
    Set44,
    #[value(name = "65")]
    Set65,
    #[value(name = "87")]
    Set87,
}

impl KeyKind {
    /// A new key, of RSA with this many bits if it says nothing.
    fn generate(&self, bits: u32) -> anyhow::Result<SigningKey> {
        let set = match self.ml_dsa {
            None => return Ok(SigningKey::generate(bits)?),
            Some(Set::Set44) => MlDsa::Set44,
            Some(Set::Set65) => MlDsa::Set65,
            Some(Set::Set87) => MlDsa::Set87,
        };
        Ok(SigningKey::generate_ml_dsa(set)?)
    }
}

/// The issued certificates.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    /// Number of the next revocation list.
    crl_number: u64,
    issued: Vec<Issued>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Issued {
    serial: String,
    name: String,
    /// Seconds since 1970.
    not_after: i64,
    /// Seconds since 1970.
    revoked_at: Option<i64>,
}

/// Runs the command and returns the text to print.
pub fn run(command: &Command) -> anyhow::Result<String> {
    let now = now()?;
    match command {
        Command::Ca(args) => create(args, now),
        Command::Issue(args) => {
            let made = issue(args, now)?;
            if let Some(password) = made.password {
                // Once, and into no other text.
                let told = Zeroizing::new(format!("password of the certificate: {}\n", *password));
                crate::console::say(&told)?;
            }
            Ok(made.text)
        }
        Command::Revoke {
            ca,
            certificate,
            days,
        } => revoke(ca, certificate, *days, now),
        Command::Crl { ca, days } => {
            let (authority, mut index, _alone) = open(ca)?;
            write_list(ca, &authority, &mut index, *days, now)
        }
        Command::Skip(args) => skip::run(args, now),
        Command::SkipCheck(args) => skip::check(args),
        Command::Show { file } => {
            let text = read(file)?;
            let told = crypto::cert::describe(&text);
            let told = told.with_context(|| file.display().to_string())?;
            Ok(told + &warnings(&text, now))
        }
    }
}

fn create(args: &CaArgs, now: i64) -> anyhow::Result<String> {
    let folder = &args.out;
    if folder.join("ca.key").exists() {
        bail!(
            "{} already holds an authority: name another folder",
            folder.display()
        );
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let key = args.kind.generate(args.bits)?;
    let authority = Authority::create(&args.subject, key, &new_serial()?, now, args.days)?;
    write(&folder.join("ca.key"), &authority.key_pem(), 0o600)?;
    write(&folder.join("ca.pem"), authority.certificate_pem(), 0o644)?;
    let mut index = Index::default();
    write_list(folder, &authority, &mut index, 30, now)?;
    Ok(format!(
        "{0}/ca.pem is the authority's certificate: every gateway and client needs \
         it\n{0}/ca.key is its key: never copy it to a gateway or client\n",
        folder.display()
    ))
}

fn issue(args: &IssueArgs, now: i64) -> anyhow::Result<Made> {
    combination::check(args)?;
    combination::check_authority(args)?;
    let folder = match args.bundle || args.profile.is_some() {
        true => args.out.join(&args.name),
        false => args.out.clone(),
    };
    let draft = args.profile.map(|device| draft(args, device, &folder));
    let draft = draft.transpose()?;
    let draft = match (draft, &args.user) {
        (Some(draft), Some(user)) => return draft.of_user(user),
        (draft, _) => draft,
    };
    let (authority, mut index, _alone) = open(&args.ca)?;
    let validity = Validity::within(&authority, args.days, now)?;
    let (certificate_path, key_path) = (
        folder.join(format!("{}.pem", args.name)),
        folder.join(format!("{}.key", args.name)),
    );
    // Another party's key is certified without writing a key file. That of a profile is in it.
    let makes_key = args.key.is_none() && args.csr.is_none() && draft.is_none();
    let written = [Some(&certificate_path), makes_key.then_some(&key_path)];
    if let Some(there) = written.into_iter().flatten().find(|p| p.exists()) {
        bail!(profile::stands(there));
    }
    let own = match args.key.is_none() && args.csr.is_none() {
        true => Some(args.kind.generate(args.bits.unwrap_or(RSA_BITS))?),
        false => None,
    };
    let serial = new_serial()?;
    let made = (own.as_ref(), &serial[..]);
    let certificate = certify(args, &authority, made, (now, validity.days))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    index.issued.push(Issued {
        serial: hex(&serial),
        name: args.name.clone(),
        not_after: validity.end(now),
        revoked_at: None,
    });
    write_index(&args.ca, &index)?;
    write(&certificate_path, &certificate, 0o644)?;
    match (draft, &own) {
        (Some(draft), Some(own)) => {
            let names = alternative_names(args);
            let mut made = draft.of_certificate(&names[0], own, &certificate)?;
            made.text += &validity.told;
            return Ok(made);
        }
        (None, Some(own)) => write(&key_path, &own.to_pem(), 0o600)?,
        (_, None) => {}
    }
    let text = match args.bundle {
        true => {
            let ca = authority.certificate_pem();
            bundle::write_client(&folder, &args.name, &args.client, ca)?
        }
        false => format!(
            "{}: serial {}, {}\n",
            certificate_path.display(),
            hex(&serial),
            names_in(&certificate)?
        ),
    };
    Ok(Made {
        text: text + &validity.told,
        password: None,
    })
}

/// The certificate of our new key, or of another party's.
fn certify(
    args: &IssueArgs,
    authority: &Authority,
    (own, serial): (Option<&SigningKey>, &[u8]),
    (now, days): (i64, u32),
) -> anyhow::Result<String> {
    let foreign = args.key.as_ref().or(args.csr.as_ref());
    let foreign = foreign.map(|file| read(file)).transpose()?;
    let given = args.subject.clone();
    let subject = given.unwrap_or_else(|| format!("CN={}", args.name));
    let key = match (own, &foreign) {
        (Some(own), _) => KeyMaterial::Pair(own),
        (None, Some(pem)) if args.csr.is_some() => KeyMaterial::SigningRequest {
            pem,
            takes_names: args.accept_names,
        },
        (None, text) => KeyMaterial::Pem(text.as_deref().unwrap_or_default()),
    };
    Ok(authority.issue(&Request {
        subject: &subject,
        alternative_names: &alternative_names(args),
        key,
        serial,
        now,
        days,
    })?)
}

/// A profile that is checked before anything is written.
fn draft(
    args: &IssueArgs,
    device: profile::Device,
    folder: &Path,
) -> anyhow::Result<profile::Draft> {
    let place = args.ca.join("ca.pem");
    let authority = read(&place)?;
    profile::Draft::new(device, (folder, &args.name), &args.client, &authority)
        .with_context(|| format!("no profile for {}", args.name))
}

/// The requested names, and the name itself if it is a host name, an address or a mail address. A
/// profile always has it, because the device shows it as its identity.
fn alternative_names(args: &IssueArgs) -> Vec<String> {
    let is_name = args.name.parse::<IpAddr>().is_ok()
        || args.name.contains(['.', '@'])
        || args.profile.is_some();
    let own = is_name.then(|| args.name.clone());
    own.into_iter().chain(args.san.iter().cloned()).collect()
}

/// The names in an issued certificate.
fn names_in(certificate: &str) -> anyhow::Result<String> {
    let issued = Certificate::all_from_pem(certificate)?;
    let names = issued.iter().flat_map(Certificate::names);
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    Ok(names.join(", "))
}

fn revoke(folder: &Path, certificate: &str, days: u32, now: i64) -> anyhow::Result<String> {
    let (authority, mut index, _alone) = open(folder)?;
    let serial = if Path::new(certificate).is_file() {
        let text = read(Path::new(certificate))?;
        hex(&read_serial(&text).with_context(|| certificate.to_owned())?)
    } else {
        certificate.replace(':', "").to_lowercase()
    };
    let Some(issued) = index.issued.iter_mut().find(|i| same(&i.serial, &serial)) else {
        let list = folder.join("index.json");
        if Path::new(certificate).is_file() {
            bail!(
                "{certificate}: this authority did not issue it: \
                 serial number {serial} is not in {}",
                list.display()
            );
        }
        bail!(
            "{certificate} is neither a file nor a serial number in {}",
            list.display()
        );
    };
    issued.revoked_at.get_or_insert(now);
    let name = issued.name.clone();
    let told = write_list(folder, &authority, &mut index, days, now)?;
    Ok(format!("{name} ({serial}) is revoked\n{told}"))
}

/// Compares serial numbers without leading zeros.
fn same(a: &str, b: &str) -> bool {
    a.trim_start_matches('0') == b.trim_start_matches('0')
}

fn write_list(
    folder: &Path,
    authority: &Authority,
    index: &mut Index,
    days: u32,
    now: i64,
) -> anyhow::Result<String> {
    let mut revoked = Vec::new();
    for issued in &index.issued {
        let Some(at) = issued.revoked_at else {
            continue;
        };
        let serial = bytes(&issued.serial).with_context(|| {
            format!(
                "{}: {:?}, the serial number of {}, is not hexadecimal: its revocation cannot be \
                 listed",
                folder.join("index.json").display(),
                issued.serial,
                issued.name
            )
        })?;
        revoked.push(RevokedEntry { at, serial });
    }
    index.crl_number += 1;
    let list = authority.revocation_list(&revoked, index.crl_number, now, days)?;
    write_index(folder, index)?;
    let path = folder.join("crl.pem");
    write(&path, &list, 0o644)?;
    Ok(format!(
        "{} is list {}, valid for {days} days: copy it to the gateways and run `caravan reload` \
         there\n",
        path.display(),
        index.crl_number
    ))
}

/// The authority of a folder that `caravan pki ca` has made.
pub(crate) fn authority(folder: &Path) -> anyhow::Result<Authority> {
    let certificate = read(&folder.join("ca.pem")).with_context(|| {
        format!(
            "{} is not an authority: `caravan pki ca` makes one",
            folder.display()
        )
    })?;
    let path = folder.join("ca.key");
    let key = files::read_secret(&path, MAX_KEY)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Authority::load(&certificate, &key).with_context(|| path.display().to_string())
}

/// Locks the authority for one command. Of two that both write the index, the later one would lose
/// the other's revocation.
fn open(folder: &Path) -> anyhow::Result<(Authority, Index, Flock<File>)> {
    let authority = authority(folder)?;
    let context = || format!("cannot lock {}", folder.display());
    let alone = File::open(folder).with_context(context)?;
    let alone = Flock::lock(alone, FlockArg::LockExclusive).map_err(|(_, errno)| errno);
    let alone = alone.with_context(context)?;
    let path = folder.join("index.json");
    let index = match path.exists() {
        true => serde_json::from_str(&read(&path)?)
            .with_context(|| format!("{} is damaged", path.display()))?,
        false => Index::default(),
    };
    Ok((authority, index, alone))
}

fn write_index(folder: &Path, index: &Index) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(index)?;
    write(&folder.join("index.json"), &text, 0o644)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|fault| {
        let path = path.display();
        let is_text = fault.kind() != ErrorKind::InvalidData;
        anyhow::Error::new(fault).context(match is_text {
            true => format!("cannot read {path}"),
            false => format!("{path} is not PEM; of a .p12, `openssl pkcs12 -in FILE` makes that"),
        })
    })
}

/// All or nothing, and never readable for others.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    write_octets(path, text.as_bytes(), mode)
}

fn write_octets(path: &Path, octets: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let attempt = || -> std::io::Result<()> {
        let _ = fs::remove_file(&new);
        let mut options = File::options();
        options.write(true).create_new(true).mode(mode);
        let mut file = options.open(&new)?;
        file.write_all(octets)?;
        // After a power failure the file has the whole old or the whole new text.
        file.sync_all()?;
        fs::rename(&new, path)?;
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    attempt().with_context(|| format!("cannot write {}", path.display()))
}

/// Octets of the operating system.
pub(crate) fn random<const N: usize>() -> anyhow::Result<Zeroizing<[u8; N]>> {
    let mut octets = Zeroizing::new([0; N]);
    sys::random(&mut octets[..]).context("the kernel gives no random octets")?;
    Ok(octets)
}

fn new_serial() -> anyhow::Result<Vec<u8>> {
    let mut serial = random::<SERIAL_BYTES>()?.to_vec();
    // Positive, and always of the same length.
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

fn now() -> anyhow::Result<i64> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970: set it")?;
    Ok(since.as_secs() as i64)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if hex.is_empty() {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests;
