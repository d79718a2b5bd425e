//! Target's members, with their lines of the access list and their enrolled keys.

use std::collections::BTreeSet;

use engine::agent::Digest;
use engine::agent::objectives::Options;
use engine::agent::target::{Access, Standing};
use engine::time::Duration;
use wire::agent::Network;

use super::link::Link;
use super::value::{Row, Value};
use super::{StoreError, check_name};

/// A user of a Host that is believed about him, and what he may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// His User ID.
    pub user: String,
    /// The name of his Host.
    pub host: String,
    /// His line of the access list.
    pub access: Access,
    /// SHA-256 of the public halves of his keys. None: every key serves of which his Host says
    /// that it is his.
    pub enrolled: Option<BTreeSet<Digest>>,
}

/// What becomes of a member's enrolment when he is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolment {
    /// It stays as it is. A new member has none.
    Kept,
    /// Only enrolled keys serve from now on. Those that are enrolled stay.
    Demanded,
    /// Every key of his Host serves from now on, and enrolled ones are forgotten.
    Void,
}

/// What a user may with this key. None: with a shared pair, which nobody can enrol.
pub(super) async fn standing(
    link: &mut Link,
    user: &str,
    host: &str,
    key: Option<&Digest>,
) -> Result<Standing, StoreError> {
    // No member has such a name, and PostgreSQL has no such text.
    if user.contains('\0') || host.contains('\0') {
        return Ok(Standing::Stranger);
    }
    let query = "SELECT m.options, m.networks, m.lifetime_s, m.demands_enrolled, \
                 (SELECT count(*) FROM agent_enrolled e WHERE e.user_id = m.user_id \
                 AND e.host = m.host AND e.key_digest = $1) \
                 FROM agent_members m WHERE m.user_id = $2 AND m.host = $3";
    // A shared pair has no digest, and no digest is empty.
    let key = Value::octets(key.map_or(&[][..], |it| &it.0[..]));
    let values = [key, user.into(), host.into()];
    let rows = link.rows(query, &values).await?;
    let Some(mut row) = rows.into_iter().next() else {
        return Ok(Standing::Stranger);
    };
    let access = access_of(&mut row)?;
    let (demands_enrolled, is_enrolled) = (row.is()?, row.is()?);
    Ok(match demands_enrolled && !is_enrolled {
        true => Standing::KeyNotEnrolled,
        false => Standing::Member(access),
    })
}

/// Writes a member's line of the access list. Whether his keys must be enrolled is changed by an
/// explicit word alone.
pub(super) async fn set(
    link: &mut Link,
    (user, host): (&str, &str),
    access: &Access,
    enrolment: Enrolment,
) -> Result<(), StoreError> {
    check_name("a user", user)?;
    check_name("a host", host)?;
    let mut upsert = "INSERT INTO agent_members \
                      (user_id, host, options, networks, lifetime_s, demands_enrolled) \
                      VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (user_id, host) DO UPDATE SET \
                      options = excluded.options, networks = excluded.networks, \
                      lifetime_s = excluded.lifetime_s"
        .to_owned();
    if enrolment != Enrolment::Kept {
        upsert += ", demands_enrolled = excluded.demands_enrolled";
    }
    let networks = access.networks.iter();
    let networks = networks.map(|it| format!("{}/{}", it.address, it.prefix_len));
    let networks = networks.collect::<Vec<_>>().join(" ");
    let lifetime = i64::try_from(access.lifetime.as_secs()).unwrap_or(i64::MAX);
    let values = [
        user.into(),
        host.into(),
        Value::Number(i64::from(access.options.number())),
        networks.as_str().into(),
        Value::Number(lifetime),
        Value::Number(i64::from(enrolment == Enrolment::Demanded)),
    ];
    link.change(&upsert, &values).await?;
    if enrolment == Enrolment::Void {
        let forget = "DELETE FROM agent_enrolled WHERE user_id = $1 AND host = $2";
        link.change(forget, &values[..2]).await?;
    }
    Ok(())
}

/// Enrols more keys of a member. Only enrolled ones serve him from then on.
pub(super) async fn enrol(
    link: &mut Link,
    user: &str,
    host: &str,
    keys: &[Digest],
) -> Result<(), StoreError> {
    let sql = "UPDATE agent_members SET demands_enrolled = 1 WHERE user_id = $1 AND host = $2";
    match link.change(sql, &[user.into(), host.into()]).await? {
        0 => Err(StoreError::NoMember(format!("{user}@{host}"))),
        _ => add_keys(link, user, host, keys.iter()).await,
    }
}

async fn add_keys(
    link: &mut Link,
    user: &str,
    host: &str,
    keys: impl Iterator<Item = &Digest>,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO agent_enrolled (user_id, host, key_digest) VALUES ($1, $2, $3) \
                  ON CONFLICT (user_id, host, key_digest) DO NOTHING";
    for key in keys {
        let values = [user.into(), host.into(), Value::octets(&key.0)];
        link.change(insert, &values).await?;
    }
    Ok(())
}

/// Whether there was such a member. His keys are forgotten with him; Target's agent notices, and
/// ends his tunnels.
pub(super) async fn remove(link: &mut Link, user: &str, host: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM agent_members WHERE user_id = $1 AND host = $2";
    Ok(link.change(sql, &[user.into(), host.into()]).await? > 0)
}

/// All members.
pub(super) async fn all(link: &mut Link) -> Result<Vec<Member>, StoreError> {
    let query = "SELECT options, networks, lifetime_s, demands_enrolled, user_id, host \
                 FROM agent_members ORDER BY host, user_id";
    let mut members = Vec::new();
    for mut row in link.rows(query, &[]).await? {
        let access = access_of(&mut row)?;
        let demands_enrolled = row.is()?;
        let (user, host) = (row.text()?, row.text()?);
        let query = "SELECT key_digest FROM agent_enrolled WHERE user_id = $1 AND host = $2";
        let keys = link
            .rows(query, &[user.as_str().into(), host.as_str().into()])
            .await?;
        let keys = keys.into_iter().map(|mut row| Ok(Digest(*row.array()?)));
        let keys = keys.collect::<Result<BTreeSet<_>, StoreError>>()?;
        members.push(Member {
            user,
            host,
            access,
            enrolled: demands_enrolled.then_some(keys),
        });
    }
    Ok(members)
}

fn access_of(row: &mut Row) -> Result<Access, StoreError> {
    let options = u8::try_from(row.number()?);
    let options = options.map_err(|_| StoreError::Damaged("a member has unknown options"))?;
    let networks = row.text()?;
    let networks: Option<Vec<Network>> = networks.split_whitespace().map(network_of).collect();
    let networks = networks.ok_or(StoreError::Damaged("a member's network is none"))?;
    let lifetime = u64::try_from(row.number()?);
    let lifetime = lifetime.map_err(|_| StoreError::Damaged("a member has a negative lifetime"))?;
    Ok(Access {
        options: Options::of_number(options),
        networks,
        lifetime: Duration::from_secs(lifetime),
    })
}

fn network_of(text: &str) -> Option<Network> {
    let (address, length) = text.split_once('/')?;
    let address: std::net::IpAddr = address.parse().ok()?;
    let prefix_len: u8 = length.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (prefix_len <= most).then_some(Network {
        address,
        prefix_len,
    })
}
