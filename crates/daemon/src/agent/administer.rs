//! The administrator's commands: keys of Host, members of Target.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use engine::agent::host::{Half, Record, State};
use engine::agent::objectives::{Options, SecurityOption};
use engine::agent::target::Access;
use engine::agent::{Digest, Handle};
use serde_json::json;
use wire::agent::Network;

use super::client::user_id;
use super::clock::calendar;
use super::lifetime;
use super::store::{Database, Enrolment, Member, Store, StoreRole, Which};
use crate::config::agent::{HostConfig, TargetConfig};
use crate::config::values::Span;
use crate::config::wireless::octets_of;

/// Networks of a member: Tunneling Info has room for no more.
const NETWORKS_MAX: usize = 16;

/// Options of `caravan tunnel-agent keys`.
#[derive(Clone, Debug, clap::Args)]
pub struct KeysArgs {
    /// Host's file
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// JSON with fixed keys
    #[arg(long)]
    json: bool,
}

/// Options of `caravan tunnel-agent revoke`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["key", "user", "all"]))]
pub struct RevokeArgs {
    /// Host's file
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// A key, by its handle
    #[arg(long, value_name = "HANDLE", value_parser = handle)]
    key: Option<Handle>,
    /// All keys of a user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// All keys
    #[arg(long)]
    all: bool,
}

/// Options of `caravan tunnel-agent member`.
#[derive(Clone, Debug, clap::Args)]
pub struct MemberArgs {
    /// Target's file
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
    #[command(subcommand)]
    command: MemberCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum MemberCommand {
    /// Let a user in, or change what he may
    Add {
        /// USER@HOST: a name, and the [hosts.NAME] that is believed about it
        #[arg(value_parser = user_at_host)]
        member: (String, String),
        /// What he may reach behind Target
        #[arg(long, value_name = "ADDRESS/PREFIX", required = true, value_parser = network)]
        network: Vec<Network>,
        /// IPsec options that he may use
        #[arg(
            long,
            value_name = "OPTION,...",
            value_delimiter = ',',
            default_value = "ESP,AH+ESP",
            value_parser = option
        )]
        options: Vec<SecurityOption>,
        /// The longest tunnel: 1 minute to 24 hours
        #[arg(long, value_name = "SPAN", default_value = "8h", value_parser = lifetime)]
        lifetime: Span,
        /// Only with keys that are enrolled here, so that Host alone cannot come in as him
        #[arg(long)]
        enrolled: bool,
        /// With every key of his Host, and forget the enrolled ones; without this word, a member
        /// that is changed keeps his enrolment
        #[arg(long, conflicts_with = "enrolled")]
        any_key: bool,
    },
    /// Let a user in no more; his tunnels end within half a minute
    Remove {
        /// USER@HOST
        #[arg(value_parser = user_at_host)]
        member: (String, String),
    },
    /// Enrol keys of a user: only enrolled ones serve from then on
    Enrol {
        /// USER@HOST
        #[arg(value_parser = user_at_host)]
        member: (String, String),
        /// File that `issue --digests` has written
        #[arg(long, value_name = "FILE")]
        digests: PathBuf,
    },
    /// Show all members
    List {
        /// JSON with fixed keys
        #[arg(long)]
        json: bool,
    },
}

fn digest(text: &str) -> Option<Digest> {
    let octets = octets_of(text.trim())?;
    Some(Digest(octets.as_slice().try_into().ok()?))
}

fn handle(text: &str) -> Result<Handle, String> {
    let octets = octets_of(text).and_then(|it| it.as_slice().try_into().ok());
    let octets = octets.ok_or("a handle has 32 hexadecimal digits, as `keys` shows them")?;
    Ok(Handle(octets))
}

fn user_at_host(text: &str) -> Result<(String, String), String> {
    let (user, host) = text.split_once('@').ok_or("write USER@HOST")?;
    Ok((user_id(user)?, host.to_owned()))
}

pub(super) fn option(text: &str) -> Result<SecurityOption, String> {
    let mut all = SecurityOption::ALL.into_iter();
    let found = all.find(|one| one.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| "options are Native, AH, ESP and AH+ESP".to_owned())
}

/// Reads `10.10.0.0/24`, without host bits.
pub(super) fn network(text: &str) -> Result<Network, String> {
    let read = || {
        let (address, prefix_len) = text.split_once('/')?;
        let (address, prefix_len): (IpAddr, u8) = (address.parse().ok()?, prefix_len.parse().ok()?);
        let (bits, all) = match address {
            IpAddr::V4(it) => (u128::from(it.to_bits()) << 96, 32),
            IpAddr::V6(it) => (it.to_bits(), 128),
        };
        let rest = bits.checked_shl(prefix_len.into()).unwrap_or(0);
        (prefix_len <= all && rest == 0).then_some(Network {
            address,
            prefix_len,
        })
    };
    read().ok_or_else(|| format!("{text:?} is no network, such as 10.10.0.0/24"))
}

pub(super) async fn open(database: &str, folder: &Path) -> anyhow::Result<Store> {
    let database = Database::parse(database, folder)?;
    Ok(Store::open(&database, StoreRole::Administrator).await?)
}

/// Shows keys and their states.
pub(super) async fn keys(
    args: &KeysArgs,
    config: &HostConfig,
    folder: &Path,
) -> anyhow::Result<String> {
    let all = open(&config.database, folder).await?.keys().await?;
    let mut all = all.iter().filter(|(_, record)| {
        let user = args.user.as_ref();
        user.is_none_or(|user| *user == record.user)
    });
    if args.json {
        let list: Vec<_> = all.map(|(handle, record)| shown(*handle, record)).collect();
        return Ok(format!("{}\n", json!({ "keys": list })));
    }
    let mut text = String::new();
    for (handle, record) in all.by_ref() {
        text += &format!(
            "{handle} {:8} {} until {}\n",
            state(record),
            record.user,
            record.not_after
        );
    }
    Ok(match text.is_empty() {
        true => "there is no key\n".to_owned(),
        false => text,
    })
}

fn shown(handle: Handle, record: &Record) -> serde_json::Value {
    json!({
        "handle": handle.to_string(),
        "user": record.user,
        "state": state(record),
        "not_after": record.not_after.0,
        "not_after_utc": record.not_after.to_string(),
        "shared": matches!(record.half, Half::Shared(_)),
    })
}

/// A key's state in a word.
fn state(record: &Record) -> &'static str {
    match &record.state {
        State::Valid if record.not_after < calendar() => "expired",
        State::Valid => "valid",
        State::Taken { .. } => "taken",
        State::Used { .. } => "used",
        State::Failed { .. } => "failed",
        State::Revoked => "revoked",
    }
}

/// Revokes keys.
pub(super) async fn revoke(
    args: &RevokeArgs,
    config: &HostConfig,
    folder: &Path,
) -> anyhow::Result<String> {
    let which = match (args.key, &args.user, args.all) {
        (Some(handle), ..) => Which::Handle(handle),
        (_, Some(user), _) => Which::User(user.clone()),
        _ => Which::All,
    };
    let count = open(&config.database, folder).await?.revoke(which).await?;
    match (count, args.key, &args.user) {
        (0, Some(handle), _) => bail!("{handle} is no valid key: it is unknown, used or revoked"),
        (0, _, Some(user)) => bail!("{user} has no valid key, so none is revoked"),
        (0, ..) => bail!("there is no valid key, so none is revoked"),
        (1, ..) => Ok("1 key is revoked\n".to_owned()),
        _ => Ok(format!("{count} keys are revoked\n")),
    }
}

/// Changes or shows members.
pub(super) async fn member(
    args: &MemberArgs,
    config: &TargetConfig,
    folder: &Path,
) -> anyhow::Result<String> {
    let mut store = open(&config.database, folder).await?;
    let known = |host: &str| match config.hosts.contains_key(host) {
        true => Ok(()),
        false => {
            let names: Vec<&str> = config.hosts.keys().map(String::as_str).collect();
            Err(anyhow::anyhow!(
                "there is no [hosts.{host}] in Target's file; there are: {}",
                names.join(", ")
            ))
        }
    };
    match &args.command {
        MemberCommand::Add {
            member: (user, host),
            network,
            options,
            lifetime,
            enrolled,
            any_key,
        } => {
            known(host)?;
            ensure!(
                network.len() <= NETWORKS_MAX,
                "{} networks: {NETWORKS_MAX} at most",
                network.len()
            );
            one_family(network, config.pool.as_ref().map(|it| it.name.as_str()))?;
            let enrolment = enrolment_of(*enrolled, *any_key);
            let access = Access {
                options: options.iter().copied().collect::<Options>(),
                networks: network.clone(),
                lifetime: lifetime.0,
            };
            store.set_member((user, host), &access, enrolment).await?;
            let all = store.members().await?;
            let mut all = all.iter().filter(|it| (&it.user, &it.host) == (user, host));
            let keys = all.next().map_or_else(String::new, keys_of);
            Ok(format!("{user}@{host} is a member: {keys}\n"))
        }
        MemberCommand::Remove {
            member: (user, host),
        } => match store.remove_member(user, host).await? {
            true => Ok(format!("{user}@{host} is no member any longer\n")),
            false => bail!("{user}@{host} is no member"),
        },
        MemberCommand::Enrol {
            member: (user, host),
            digests,
        } => {
            let keys = read_digests(digests)?;
            store.enrol(user, host, &keys).await?;
            Ok(match keys.len() {
                1 => format!("1 key of {user}@{host} is enrolled\n"),
                count => format!("{count} keys of {user}@{host} are enrolled\n"),
            })
        }
        MemberCommand::List { json } => Ok(members(&store.members().await?, *json)),
    }
}

/// A tunnel has one address inside, and it reaches networks of its family alone.
fn one_family(networks: &[Network], pool: Option<&str>) -> anyhow::Result<()> {
    let mut families = networks.iter().map(|it| it.address.is_ipv4());
    let is_v4 = families.next().unwrap_or(true);
    ensure!(
        families.all(|other| other == is_v4),
        "networks of IPv4 and of IPv6: a tunnel has one address inside, so name those of one family"
    );
    if let Some(pool) = pool {
        ensure!(
            pool.contains(':') != is_v4,
            "the pool {pool} has addresses of the other family than these networks"
        );
    }
    Ok(())
}

fn read_digests(path: &Path) -> anyhow::Result<Vec<Digest>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let keys = lines.map(|line| {
        digest(line).with_context(|| format!("{}: {line:?} is no digest", path.display()))
    });
    keys.collect()
}

fn enrolment_of(enrolled: bool, any_key: bool) -> Enrolment {
    match (enrolled, any_key) {
        (true, _) => Enrolment::Demanded,
        (_, true) => Enrolment::Void,
        _ => Enrolment::Kept,
    }
}

/// The keys that serve a member.
fn keys_of(member: &Member) -> String {
    match &member.enrolled {
        None => "any key of his Host".to_owned(),
        Some(keys) if keys.len() == 1 => "1 enrolled key".to_owned(),
        Some(keys) => format!("{} enrolled keys", keys.len()),
    }
}

fn members(all: &[Member], json: bool) -> String {
    let options = |member: &Member| {
        let all = SecurityOption::ALL.into_iter();
        let all = all.filter(|one| member.access.options.has(*one));
        all.map(SecurityOption::name).collect::<Vec<_>>()
    };
    let networks = |member: &Member| {
        let all = member.access.networks.iter();
        let all = all.map(|it| format!("{}/{}", it.address, it.prefix_len));
        all.collect::<Vec<_>>()
    };
    if json {
        let list = all.iter().map(|member| {
            json!({
                "user": member.user,
                "host": member.host,
                "options": options(member),
                "networks": networks(member),
                "lifetime_s": member.access.lifetime.as_secs(),
                "enrolled_keys": member.enrolled.as_ref().map(BTreeSet::len),
            })
        });
        return format!("{}\n", json!({ "members": list.collect::<Vec<_>>() }));
    }
    let lines = all.iter().map(|member| {
        let keys = keys_of(member);
        format!(
            "{}@{}: {} to {}, {} s at most, {keys}\n",
            member.user,
            member.host,
            options(member).join(" "),
            networks(member).join(" "),
            member.access.lifetime.as_secs()
        )
    });
    let text: String = lines.collect();
    match text.is_empty() {
        true => "there is no member\n".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_member_are_read() {
        let found = network("10.10.0.0/24").unwrap();
        assert_eq!(
            (found.address.to_string(), found.prefix_len),
            ("10.10.0.0".into(), 24)
        );
        assert!(network("fd00::/8").is_ok() && network("0.0.0.0/0").is_ok());
        assert!(network("::1/128").is_ok());
        for wrong in ["10.10.0.1/24", "10.0.0.0/33", "10.0.0.0", "::1/64", "x/8"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
        assert_eq!(option("ah+esp"), Ok(SecurityOption::AhEsp));
        assert_eq!(
            user_at_host("alice@home"),
            Ok(("alice".into(), "home".into()))
        );
        assert!(user_at_host("alice").is_err());
        assert!(handle("00").is_err() && handle(&"0a".repeat(16)).is_ok());
        assert!(digest(&"0a".repeat(32)).is_some() && digest("0a").is_none());
    }
}
