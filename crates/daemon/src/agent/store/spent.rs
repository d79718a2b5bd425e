//! Keys that are spent at Target, and the tunnels that they have made. Rows stay: they are why no
//! key makes a second tunnel here, and what shows who has asked for the first.

use crypto::ed25519::{Signature, VerifyKey};
use engine::agent::identity::AgentName;
use engine::agent::target::{Evidence, Former, Progress, Spending};
use engine::agent::{Digest, Handle, TunnelId};
use engine::time::Calendar;

use super::StoreError;
use super::link::Link;
use super::value::{Row, Value};

/// Writes that a key is spent. False: it was spent before, here or by a Target that shares the
/// database.
pub(super) async fn spend(
    link: &mut Link,
    target: AgentName,
    spending: &Spending,
) -> Result<bool, StoreError> {
    let insert = "INSERT INTO agent_spent (key_digest, handle, target, tunnel, client_identity, \
                  ends_at, public_half, request, signature, has_arrived, has_ended) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0) ON CONFLICT DO NOTHING";
    let evidence = &spending.evidence;
    let values = [
        Value::octets(&spending.key.0),
        Value::octets(&spending.handle.0),
        Value::octets(&target.0),
        Value::octets(&spending.tunnel.0),
        spending.client_identity.as_str().into(),
        Value::Number(spending.until.0),
        Value::octets(&evidence.key.0),
        Value::octets(&evidence.request),
        Value::octets(&evidence.signature.0),
    ];
    Ok(link.change(insert, &values).await? == 1)
}

/// Notes how far a tunnel is. One that was never written is not there to be noted.
pub(super) async fn note(
    link: &mut Link,
    tunnel: TunnelId,
    progress: Progress,
) -> Result<(), StoreError> {
    let sql = match progress {
        Progress::Arrived => "UPDATE agent_spent SET has_arrived = 1 WHERE tunnel = $1",
        Progress::Ended => "UPDATE agent_spent SET has_ended = 1 WHERE tunnel = $1",
    };
    link.change(sql, &[Value::octets(&tunnel.0)])
        .await
        .map(drop)
}

/// What is read of a row.
const SELECT: &str = "SELECT key_digest, handle, tunnel, client_identity, ends_at, public_half, \
                      request, signature, has_arrived FROM agent_spent";

/// The key that was spent for a tunnel, of any Target that shares the database.
pub(super) async fn of_tunnel(
    link: &mut Link,
    tunnel: TunnelId,
) -> Result<Option<Spending>, StoreError> {
    let query = format!("{SELECT} WHERE tunnel = $1");
    let rows = link.rows(&query, &[Value::octets(&tunnel.0)]).await?;
    let row = rows.into_iter().next();
    Ok(row.map(former_of).transpose()?.map(|it| it.spending))
}

/// This Target's tunnels that were not noted as ended.
pub(super) async fn former(link: &mut Link, target: AgentName) -> Result<Vec<Former>, StoreError> {
    let query = format!("{SELECT} WHERE target = $1 AND has_ended = 0 ORDER BY tunnel");
    let query = &query[..];
    let rows = link.rows(query, &[Value::octets(&target.0)]).await?;
    rows.into_iter().map(former_of).collect()
}

fn former_of(mut row: Row) -> Result<Former, StoreError> {
    let spending = Spending {
        key: Digest(*row.array()?),
        handle: Handle(*row.array()?),
        tunnel: TunnelId(*row.array()?),
        client_identity: row.text()?,
        until: Calendar(row.number()?),
        evidence: Evidence {
            key: VerifyKey(*row.array()?),
            request: row.octets()?.to_vec(),
            signature: Signature(*row.array()?),
        },
    };
    Ok(Former {
        spending,
        has_arrived: row.is()?,
    })
}
