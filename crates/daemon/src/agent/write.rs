//! `caravan tunnel-agent write`: the texts by which a foreign implementation builds one end of a
//! tunnel and takes it down, for a machine on which no agent runs.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use crypto::cert::{Certificate, SigningKey};
use engine::agent::TunnelId;
use engine::agent::description::{
    Credential, Description, End, Inner, Key, Name, Ppk, Proposals, Side,
};
use engine::agent::ike::IkeVersion;
use engine::agent::objectives::SecurityOption;
use engine::agent::ppk::TunnelPpk;
use engine::agent::target::SessionKey;
use engine::agent::writers::{Kind, Texts, WriteFault, write_in};
use wire::agent::Network;
use zeroize::Zeroizing;

use super::administer::{network, option};
use super::certify::KEY_MAX;
use super::{hygiene, key_file, lifetime};
use crate::config::values::Span;
use crate::config::wireless::octets_of;
use crate::files;

/// Options of `caravan tunnel-agent write`.
#[derive(Clone, Debug, clap::Args)]
pub struct WriteArgs {
    /// caravan, strongswan, libreswan, ip-xfrm, setkey, racoon2, windows; and of history ipseccmd,
    /// ipsecpol, freeswan, racoon
    #[arg(long = "for", value_name = "WRITER", value_parser = kind)]
    writer: Kind,
    /// Which end
    #[arg(long, value_enum)]
    side: SideWord,
    /// IPsec option: Native, AH, ESP, AH+ESP
    #[arg(long, value_name = "OPTION", default_value = "ESP", value_parser = option)]
    option: SecurityOption,
    /// Addresses of this end; not needed at Client
    #[arg(long, value_name = "ADDRESS")]
    local: Vec<IpAddr>,
    /// Addresses of the other end; not needed at Target
    #[arg(long, value_name = "ADDRESS")]
    remote: Vec<IpAddr>,
    /// IKE identity of this end
    #[arg(long, value_name = "NAME", value_parser = name)]
    local_id: Name,
    /// IKE identity of the other end
    #[arg(long, value_name = "NAME", value_parser = name)]
    remote_id: Name,
    /// What is behind Target
    #[arg(long, value_name = "ADDRESS/PREFIX", required = true, value_parser = network)]
    network: Vec<Network>,
    /// The inner address that Target lends; Client asks for one
    #[arg(long, value_name = "ADDRESS")]
    inner: Option<IpAddr>,
    /// Algorithms, such as aes128gcm16-modp2048, ike-aes256-sha256-modp2048, ah-sha256
    #[arg(long, value_name = "WORD,...", value_delimiter = ',')]
    proposals: Vec<String>,
    /// Version of IKE, 1 or 2; 2 where the writer has it
    #[arg(long, value_name = "VERSION", value_parser = version)]
    ike: Option<IkeVersion>,
    /// File with a post-quantum pre-shared key of 64 hexadecimal digits
    #[arg(long, value_name = "FILE", requires = "ppk_id")]
    ppk: Option<PathBuf>,
    /// Its name, the same at both ends
    #[arg(long, value_name = "NAME", value_parser = name, requires = "ppk")]
    ppk_id: Option<Name>,
    /// File with a session key of 64 hexadecimal digits
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "cert",
        required_unless_present = "cert"
    )]
    session_key: Option<PathBuf>,
    /// Our certificates, PEM
    #[arg(long, value_name = "FILE", requires_all = ["key", "peer_cert"])]
    cert: Option<PathBuf>,
    /// Our private key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The other end's certificates, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    peer_cert: Option<PathBuf>,
    /// How long the tunnel lives, where the implementation ends it by itself
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = lifetime)]
    lifetime: Span,
    /// Allow weak algorithms
    #[arg(long)]
    legacy: bool,
    /// Folder of the files on the foreign machine; default: the implementation's own
    #[arg(long, value_name = "DIR")]
    folder: Option<String>,
    /// Write the files into this folder here, instead of showing them with their secrets
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SideWord {
    Client,
    Target,
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::of_name(text).ok_or_else(|| {
        let all = Kind::ALL.map(Kind::name);
        format!("writers are {}", all.join(", "))
    })
}

fn name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|fault| fault.to_string())
}

fn version(text: &str) -> Result<IkeVersion, String> {
    let found = text.parse().ok().and_then(IkeVersion::of_number);
    found.ok_or_else(|| "a version of IKE is 1 or 2".to_owned())
}

/// Writes the texts. Returns the text to print: what to run.
pub(super) fn run(args: &WriteArgs) -> anyhow::Result<String> {
    hygiene::keep_private();
    let description = describe(args)?;
    let own = args.writer.folder().to_owned();
    let folder = args.folder.as_ref().unwrap_or(&own);
    let texts = write_in(args.writer, &description, folder).map_err(with_cure)?;
    if let Some(out) = &args.out {
        for file in &texts.files {
            // Also of a Windows path.
            let name = file.path.rsplit(['/', '\\']).next().unwrap_or(&file.path);
            key_file::write_new(&out.join(name), file.text.as_bytes())?;
        }
    }
    Ok(shown(&texts, args.out.is_none()))
}

/// What the implementations of 2004 have in common.
const OLD: &str = "ike-3des-sha1-modp1024,3des-sha1,ah-sha1";

/// Says which suites an implementation of the paper's time has.
fn with_cure(fault: WriteFault) -> anyhow::Error {
    match &fault {
        WriteFault::Suite { kind, .. } if kind.is_historical() => {
            anyhow::anyhow!("{fault}; it has weak ones alone: --legacy --proposals {OLD}")
        }
        _ => fault.into(),
    }
}

fn describe(args: &WriteArgs) -> anyhow::Result<Description> {
    let (side, needed) = match args.side {
        SideWord::Client => (Side::Client, &args.remote),
        SideWord::Target => (Side::Target, &args.local),
    };
    ensure!(
        !needed.is_empty(),
        "Target's addresses are needed: --remote at Client, --local at Target"
    );
    let inner = match (side, args.inner) {
        (Side::Client, None) => Inner::Asked,
        (Side::Client, Some(_)) => bail!("--inner belongs to --side target: Client asks for one"),
        (Side::Target, Some(address)) => Inner::Lent(address),
        (Side::Target, None) => Inner::Outer,
    };
    let ike = args.ike.or_else(|| args.writer.ike().best());
    let ike = ike.context("the writer has no version of IKE")?;
    Ok(Description {
        tunnel: TunnelId(*key_file::random()?),
        side,
        option: args.option,
        local: End {
            addresses: args.local.clone(),
            identity: args.local_id.clone(),
        },
        remote: End {
            addresses: args.remote.clone(),
            identity: args.remote_id.clone(),
        },
        credential: credential(args)?,
        ike,
        ppk: ppk(args)?,
        proposals: Proposals::read(&args.proposals, ike, args.legacy)?,
        networks: args.network.clone(),
        inner,
        lifetime: args.lifetime.0,
        legacy: args.legacy,
    })
}

fn ppk(args: &WriteArgs) -> anyhow::Result<Option<Ppk>> {
    let (Some(path), Some(id)) = (&args.ppk, &args.ppk_id) else {
        return Ok(None);
    };
    ensure!(
        args.option != SecurityOption::Native,
        "--ppk: unprotected traffic has no IKE that could use it"
    );
    Ok(Some(Ppk {
        id: id.clone(),
        key: TunnelPpk::of_octets(&*digits_of(path)?),
    }))
}

fn secret_of(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let text = files::read_secret(path, KEY_MAX);
    text.with_context(|| format!("cannot read {}", path.display()))
}

/// 32 octets of a file with 64 hexadecimal digits.
fn digits_of(path: &Path) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    let octets = octets_of(secret_of(path)?.trim());
    let key = octets.and_then(|octets| octets.as_slice().try_into().ok().map(Zeroizing::new));
    key.with_context(|| format!("{} does not have 64 hexadecimal digits", path.display()))
}

fn credential(args: &WriteArgs) -> anyhow::Result<Credential> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path);
        text.with_context(|| format!("cannot read {}", path.display()))
    };
    let chain = |path: &PathBuf| {
        let all = Certificate::all_from_pem(&read(path)?);
        let all = all.with_context(|| path.display().to_string())?;
        anyhow::Ok(all.iter().map(|one| one.der().to_vec()).collect())
    };
    if let Some(path) = &args.session_key {
        return Ok(Credential::PresharedKey(SessionKey(*digits_of(path)?)));
    }
    let (Some(cert), Some(key), Some(peer)) = (&args.cert, &args.key, &args.peer_cert) else {
        bail!("--session-key, or --cert, --key and --peer-cert");
    };
    let pem = secret_of(key)?;
    let private = SigningKey::from_pem(&pem).with_context(|| key.display().to_string())?;
    Ok(Credential::Certificates {
        chain: chain(cert)?,
        key: Key(private.to_der().to_vec()),
        peer: chain(peer)?,
    })
}

fn shown(texts: &Texts, with_files: bool) -> String {
    let mut text = String::new();
    for note in &texts.notes {
        text += &format!("# {note}\n");
    }
    for file in &texts.files {
        text += &match with_files {
            true => format!("\n# file {}\n{}\n", file.path, *file.text),
            false => format!("# file {}\n", file.path),
        };
    }
    for (title, orders) in [("construct", &texts.construct), ("destroy", &texts.destroy)] {
        text += &format!("\n# {title}\n");
        for order in orders {
            text += &format!("{}\n", order.line(texts.kind));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: WriteArgs,
    }

    /// What the refusal says to add makes a text.
    #[test]
    fn an_implementation_of_2004_is_refused_with_what_helps() {
        let name = format!("caravan-agent-write-{}", std::process::id());
        let secret = std::env::temp_dir().join(name);
        key_file::write_new(&secret, "0a".repeat(32).as_bytes()).unwrap();
        let historical = Kind::ALL.into_iter().filter(|kind| kind.is_historical());
        for kind in historical {
            let line = format!(
                "write --for {} --side client --local 10.0.0.2 --local-id alice@home.example \
                 --remote 192.0.2.9 --remote-id target.example --network 10.10.0.0/24 \
                 --session-key {}",
                kind.name(),
                secret.display()
            );
            let run_with = |more: &str| {
                let words = line.split_whitespace().chain(more.split_whitespace());
                let line = Line::try_parse_from(words).unwrap();
                run(&line.args)
            };
            let said = run_with("").unwrap_err().to_string();
            let (_, cure) = said.split_once("weak ones alone: ").expect("a cure");
            assert!(run_with(cure).is_ok(), "{said}");
        }
        std::fs::remove_file(&secret).unwrap();
    }
}
