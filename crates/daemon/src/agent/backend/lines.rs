//! `caravan tunnel-backend`: texts of an end of a tunnel, and back-ends, without an agent. It reads
//! a question as a line of JSON and answers with a line, until standard input ends.
//!
//! An end that was built is taken down at the end, as [`super::Backend::close`] says.

use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use crypto::cert::{Certificate, private_key_der};
use engine::agent::TunnelId;
use engine::agent::description::{
    Credential, Description, End, Inner, Key, Name, Ppk, Proposals, Side, tunnel_of,
};
use engine::agent::ike::IkeVersion;
use engine::agent::objectives::SecurityOption;
use engine::agent::ppk::TunnelPpk;
use engine::agent::target::SessionKey;
use engine::agent::writers::{Kind, Texts, write, write_in};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::agent::Network;

use super::client::Client;
use super::foreign::Files;
use super::gateway::Gateway;
use super::libreswan::Libreswan;
use super::strongswan::StrongSwan;
use super::{Backend, State};

/// Octets of a question.
const LINE_MAX: u64 = 1 << 20;
/// Seconds that an end lives if nothing else is said.
const LIFETIME_S: u64 = 3_600;

/// A question.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Question {
    /// The texts of an end for one implementation.
    Texts {
        kind: String,
        end: Box<EndText>,
        folder: Option<String>,
    },
    /// Opens the back-end of the questions that follow. The answer has its options.
    Open(Which),
    /// Builds an end.
    Build(Box<EndText>),
    /// How is the end of this tunnel?
    State(String),
    /// Takes it down.
    Destroy(String),
}

/// A back-end.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Which {
    Gateway {
        runtime_dir: PathBuf,
        connection: String,
        folder: PathBuf,
    },
    Client {
        folder: PathBuf,
    },
    Strongswan {
        socket: PathBuf,
    },
    Libreswan {
        folder: PathBuf,
    },
    Files {
        kind: String,
        folder: PathBuf,
    },
}

/// A description.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndText {
    /// 32 hexadecimal digits.
    tunnel: String,
    /// "client" or "target".
    side: String,
    /// The paper's name: "ESP".
    option: String,
    local: SideText,
    remote: SideText,
    credential: CredentialText,
    #[serde(default)]
    proposals: Vec<String>,
    /// The version of IKE.
    ike: Option<u8>,
    /// A PPK with the tunnel's name: 32 octets, all of them this one.
    ppk: Option<u8>,
    networks: Vec<String>,
    /// "asked", "outer", or the address that is lent.
    inner: String,
    lifetime_s: Option<u64>,
    #[serde(default)]
    legacy: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SideText {
    #[serde(default)]
    addresses: Vec<IpAddr>,
    identity: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum CredentialText {
    /// Files in PEM.
    Certificates {
        chain: PathBuf,
        key: PathBuf,
        peer: PathBuf,
    },
    /// 32 octets, all of them this one.
    Secret(u8),
}

/// Reads questions and answers them.
pub fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut backend = None;
    let mut input = io::stdin().lock();
    loop {
        let mut line = String::new();
        if io::Read::take(&mut input, LINE_MAX).read_line(&mut line)? == 0 {
            break;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(question) => runtime.block_on(answer(question, &mut backend)),
            Err(fault) => Err(fault.into()),
        };
        let answer = answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        let mut output = io::stdout().lock();
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    if let Some(backend) = backend {
        runtime.block_on(backend.close());
    }
    Ok(())
}

async fn answer(question: Question, backend: &mut Option<Backend>) -> anyhow::Result<Value> {
    if let Question::Texts { kind, end, folder } = question {
        let kind = Kind::of_name(&kind).context("there is no such kind")?;
        let end = end.read(kind.ike().best().unwrap_or(IkeVersion::V2))?;
        let texts = match folder {
            Some(folder) => write_in(kind, &end, &folder)?,
            None => write(kind, &end)?,
        };
        return Ok(serde_json::to_value(shown(&texts))?);
    }
    if let Question::Open(which) = question {
        let opened = which.open().await?;
        let options = opened.options();
        *backend = Some(opened);
        let all = SecurityOption::ALL.into_iter();
        let names: Vec<_> = all
            .filter(|option| options.has(*option))
            .map(SecurityOption::name)
            .collect();
        return Ok(json!({"options": names}));
    }
    let backend = backend.as_mut().context("open a back-end first")?;
    match question {
        Question::Build(end) => {
            backend.build(&end.read(IkeVersion::V2)?).await?;
            Ok(json!({"done": true}))
        }
        Question::State(tunnel) => {
            let (state, why) = match backend.state(id(&tunnel)?).await? {
                State::Absent => ("absent", None),
                State::Waiting => ("waiting", None),
                State::Up => ("up", None),
                State::Open => ("open", None),
                State::Down(why) => ("down", Some(why)),
            };
            Ok(json!({"state": state, "why": why}))
        }
        Question::Destroy(tunnel) => {
            backend.destroy(id(&tunnel)?).await?;
            Ok(json!({"done": true}))
        }
        Question::Texts { .. } | Question::Open(_) => bail!("that is answered above"),
    }
}

impl Which {
    async fn open(self) -> anyhow::Result<Backend> {
        Ok(match self {
            Self::Gateway {
                runtime_dir,
                connection,
                folder,
            } => Backend::Gateway(Gateway::new(runtime_dir, connection, folder)),
            Self::Client { folder } => Backend::Client(Client::new(folder, Vec::new())),
            Self::Strongswan { socket } => {
                Backend::StrongSwan(StrongSwan::open(socket, Vec::new()).await?)
            }
            Self::Libreswan { folder } => Backend::Libreswan(Libreswan::new(folder)),
            Self::Files { kind, folder } => {
                let kind = Kind::of_name(&kind).context("there is no such kind")?;
                Backend::Files(Files::new(kind, folder))
            }
        })
    }
}

impl EndText {
    /// `ike`: the version if none is said.
    fn read(&self, ike: IkeVersion) -> anyhow::Result<Description> {
        let options = SecurityOption::ALL.into_iter();
        let option = options
            .into_iter()
            .find(|option| option.name() == self.option);
        let tunnel = id(&self.tunnel)?;
        let ike = IkeVersion::of_number(self.ike.unwrap_or(ike.number()));
        let ike = ike.context("there is no such version of IKE")?;
        Ok(Description {
            tunnel,
            side: match self.side.as_str() {
                "client" => Side::Client,
                "target" => Side::Target,
                other => bail!("{other:?} is neither client nor target"),
            },
            option: option.context("there is no such option")?,
            local: self.local.read()?,
            remote: self.remote.read()?,
            credential: self.credential.read()?,
            ike,
            ppk: self
                .ppk
                .map(|octet| Ppk::of_tunnel(tunnel, TunnelPpk::of_octets(&[octet; 32]))),
            proposals: Proposals::read(&self.proposals, ike, self.legacy)?,
            networks: self
                .networks
                .iter()
                .map(|text| network(text))
                .collect::<anyhow::Result<_>>()?,
            inner: match self.inner.as_str() {
                "asked" => Inner::Asked,
                "outer" => Inner::Outer,
                address => Inner::Lent(address.parse()?),
            },
            lifetime: Duration::from_secs(self.lifetime_s.unwrap_or(LIFETIME_S)),
            legacy: self.legacy,
        })
    }
}

impl SideText {
    fn read(&self) -> anyhow::Result<End> {
        Ok(End {
            addresses: self.addresses.clone(),
            identity: Name::parse(&self.identity)?,
        })
    }
}

impl CredentialText {
    fn read(&self) -> anyhow::Result<Credential> {
        let chain = |path: &PathBuf| -> anyhow::Result<Vec<Vec<u8>>> {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let all = Certificate::all_from_pem(&text)?;
            Ok(all.iter().map(|one| one.der().to_vec()).collect())
        };
        Ok(match self {
            Self::Secret(octet) => Credential::PresharedKey(SessionKey([*octet; 32])),
            Self::Certificates {
                chain: own,
                key,
                peer,
            } => {
                let text = zeroize::Zeroizing::new(std::fs::read_to_string(key)?);
                let key = private_key_der(&text).context("there is no PKCS #8 key")?;
                Credential::Certificates {
                    chain: chain(own)?,
                    key: Key(key.to_vec()),
                    peer: chain(peer)?,
                }
            }
        })
    }
}

fn id(digits: &str) -> anyhow::Result<TunnelId> {
    tunnel_of(&format!("cta-{digits}")).context("a tunnel has 32 hexadecimal digits")
}

fn network(text: &str) -> anyhow::Result<Network> {
    let (address, len) = text.split_once('/').context("a network is ADDRESS/BITS")?;
    Ok(Network {
        address: address.parse()?,
        prefix_len: len.parse()?,
    })
}

#[derive(Serialize)]
struct Shown<'a> {
    files: Vec<(&'a str, &'a str)>,
    construct: Vec<&'a [String]>,
    destroy: Vec<&'a [String]>,
    notes: &'a [&'static str],
    whole: String,
}

fn shown(texts: &Texts) -> Shown<'_> {
    let files = texts.files.iter();
    Shown {
        files: files
            .map(|file| (file.path.as_str(), file.text.as_str()))
            .collect(),
        construct: texts.construct.iter().map(|order| &order.0[..]).collect(),
        destroy: texts.destroy.iter().map(|order| &order.0[..]).collect(),
        notes: &texts.notes,
        whole: texts.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use engine::agent::description::name_of;

    use super::*;

    #[test]
    fn a_description_in_json_is_read_and_a_wrong_one_is_told() {
        let text = r#"{"tunnel": "07070707070707070707070707070707", "side": "client", "option":
            "AH+ESP", "local": {"identity": "a@b"}, "remote": {"addresses": ["192.0.2.1"],
            "identity": "gw"}, "credential": {"secret": 7}, "networks": ["10.0.0.0/8"], "inner":
            "asked"}"#;
        let end: EndText = serde_json::from_str(text).expect("an end");
        let it = end.read(IkeVersion::V2).expect("a description");
        assert_eq!((it.side, it.option), (Side::Client, SecurityOption::AhEsp));
        assert_eq!(it.name(), name_of(TunnelId([7; 16])));
        for (from, to) in [
            ("client", "host"),
            ("AH+ESP", "IP"),
            ("a@b", "a b"),
            ("/8", "/x"),
        ] {
            let end: EndText = serde_json::from_str(&text.replace(from, to)).expect("an end");
            assert!(end.read(IkeVersion::V2).is_err(), "{to}");
        }
    }
}
