//! Host's keys: each question is one transaction around [`Record::apply`], which is the rule.
//!
//! The statements say once more from which state a key may leave, so a database whose locks fail
//! still takes a key once.

use crypto::ed25519::VerifyKey;
use engine::agent::host::{ANSWER_LIVES, Answer, Ask, Half, Record, Refusals, State};
use engine::agent::ppk::KeyPpk;
use engine::agent::{Digest, Handle};
use engine::time::Calendar;
use zeroize::Zeroizing;

use super::link::Link;
use super::value::{Row, Value};
use super::{StoreError, Which, check_name};

/// The columns of a record after its handle.
macro_rules! columns {
    () => {
        "handle, half_kind, half, user_id, not_after, refused, wrong_users, ppk, \
         state, request, taken_at, answer"
    };
}

/// Answers a question of Host, within a transaction.
pub(super) async fn answer(link: &mut Link, ask: &Ask) -> Result<Answer, StoreError> {
    let handle = match ask {
        Ask::Find(handle)
        | Ask::Take { handle, .. }
        | Ask::Refuse { handle, .. }
        | Ask::Finish { handle, .. } => *handle,
        Ask::Sweep { before } => return sweep(link, ask, *before).await,
    };
    let query = match ask {
        Ask::Find(_) => concat!("SELECT ", columns!(), " FROM agent_keys WHERE handle = $1"),
        _ => concat!(
            "SELECT ",
            columns!(),
            " FROM agent_keys WHERE handle = $1 FOR UPDATE"
        ),
    };
    let rows = link.rows(query, &[Value::octets(&handle.0)]).await?;
    let Some(row) = rows.into_iter().next() else {
        return Ok(Answer::Found(None));
    };
    let (_, mut record) = record_of(row)?;
    let answer = record.apply(ask);
    match answer {
        Answer::Taken | Answer::Finished => write(link, handle, &record.state).await?,
        Answer::Noted => note(link, handle, &record).await?,
        _ => {}
    }
    Ok(answer)
}

/// Ends keys whose Host is gone, and forgets answers that nobody asks for any more.
async fn sweep(link: &mut Link, ask: &Ask, before: Calendar) -> Result<Answer, StoreError> {
    let query = concat!(
        "SELECT ",
        columns!(),
        " FROM agent_keys WHERE state = 'taken' AND taken_at < $1 ORDER BY handle FOR UPDATE"
    );
    let mut swept = Vec::new();
    for row in link.rows(query, &[Value::Number(before.0)]).await? {
        let (handle, mut record) = record_of(row)?;
        if record.apply(ask) == Answer::Finished {
            write(link, handle, &record.state).await?;
            swept.push(handle);
        }
    }
    // A key that was taken before this time has its answer for longer than answers live.
    let forgotten = before.0.saturating_sub(ANSWER_LIVES.as_secs() as i64);
    let forget = "UPDATE agent_keys SET answer = NULL \
                  WHERE state = 'used' AND taken_at < $1 AND answer IS NOT NULL";
    link.change(forget, &[Value::Number(forgotten)]).await?;
    // A key whose time is over takes no request any more, by any Host's clock.
    let forget = "UPDATE agent_keys SET ppk = NULL WHERE not_after < $1 AND ppk IS NOT NULL";
    link.change(forget, &[Value::Number(before.0)]).await?;
    Ok(Answer::Swept(swept))
}

/// Writes the state to which a key has come.
async fn write(link: &mut Link, handle: Handle, state: &State) -> Result<(), StoreError> {
    let handle = Value::octets(&handle.0);
    let changed = match state {
        State::Taken { request, at } => {
            let sql = "UPDATE agent_keys SET state = 'taken', request = $1, taken_at = $2, \
                       ppk = NULL \
                       WHERE handle = $3 AND state = 'valid'";
            let values = [Value::octets(&request.0), Value::Number(at.0), handle];
            link.change(sql, &values).await?
        }
        State::Used { request, answer } => {
            let sql = "UPDATE agent_keys SET state = 'used', answer = $1 \
                       WHERE handle = $2 AND state = 'taken' AND request = $3";
            let answer = Value::octets(answer.as_deref().unwrap_or_default());
            link.change(sql, &[answer, handle, Value::octets(&request.0)])
                .await?
        }
        State::Failed { request } => {
            let sql = "UPDATE agent_keys SET state = 'failed' \
                       WHERE handle = $1 AND state = 'taken' AND request = $2";
            link.change(sql, &[handle, Value::octets(&request.0)])
                .await?
        }
        // No question of Host leads to these.
        State::Valid | State::Revoked => 0,
    };
    match changed {
        1 => Ok(()),
        _ => Err(StoreError::Damaged("a key has changed while it was locked")),
    }
}

/// Writes what was refused of a valid key, and whether it is revoked for it.
async fn note(link: &mut Link, handle: Handle, record: &Record) -> Result<(), StoreError> {
    let state = match record.state {
        State::Revoked => "revoked",
        _ => "valid",
    };
    let requests = record.refusals.requests.iter();
    let requests: Vec<u8> = requests.flat_map(|it| it.0).collect();
    let sql = "UPDATE agent_keys SET refused = $1, wrong_users = $2, state = $3, \
               ppk = CASE $3 WHEN 'valid' THEN ppk END \
               WHERE handle = $4 AND state = 'valid'";
    let values = [
        Value::octets(&requests),
        Value::Number(record.refusals.wrong_users.into()),
        state.into(),
        Value::octets(&handle.0),
    ];
    match link.change(sql, &values).await? {
        1 => Ok(()),
        _ => Err(StoreError::Damaged("a key has changed while it was locked")),
    }
}

/// Writes new keys: all of them or none.
pub(super) async fn issue(link: &mut Link, keys: &[(Handle, Record)]) -> Result<(), StoreError> {
    for (handle, record) in keys {
        check_name("a user", &record.user)?;
        if record.state != State::Valid {
            return Err(StoreError::NotValid(*handle));
        }
        let (kind, half) = match &record.half {
            Half::Public(key) => ("public", &key.0),
            Half::Shared(pair) => ("shared", pair),
        };
        // PostgreSQL wants to know of what type a value is that is not there.
        let insert = match record.ppk {
            None => {
                "INSERT INTO agent_keys (handle, half_kind, half, user_id, not_after, state) \
                 VALUES ($1, $2, $3, $4, $5, 'valid') ON CONFLICT (handle) DO NOTHING"
            }
            Some(_) => {
                "INSERT INTO agent_keys (handle, half_kind, half, user_id, not_after, state, ppk) \
                 VALUES ($1, $2, $3, $4, $5, 'valid', $6) ON CONFLICT (handle) DO NOTHING"
            }
        };
        let mut values = vec![
            Value::octets(&handle.0),
            kind.into(),
            Value::octets(half),
            record.user.as_str().into(),
            Value::Number(record.not_after.0),
        ];
        let ppk = record.ppk.as_ref();
        values.extend(ppk.map(|ppk| Value::octets(ppk.octets())));
        if link.change(insert, &values).await? == 0 {
            return Err(StoreError::HandleTaken(*handle));
        }
    }
    Ok(())
}

/// Revokes keys that no request has taken, as [`Record::revoke`] does. How many there were.
pub(super) async fn revoke(link: &mut Link, which: &Which) -> Result<usize, StoreError> {
    let (of, values) = match which {
        Which::Handle(handle) => (" AND handle = $1", vec![Value::octets(&handle.0)]),
        Which::User(user) => (" AND user_id = $1", vec![user.as_str().into()]),
        Which::All => ("", Vec::new()),
    };
    let sql =
        format!("UPDATE agent_keys SET state = 'revoked', ppk = NULL WHERE state = 'valid'{of}");
    Ok(link.change(&sql, &values).await? as usize)
}

/// Every key, by user.
pub(super) async fn all(link: &mut Link) -> Result<Vec<(Handle, Record)>, StoreError> {
    let query = concat!(
        "SELECT ",
        columns!(),
        " FROM agent_keys ORDER BY user_id, handle"
    );
    let rows = link.rows(query, &[]).await?;
    rows.into_iter().map(record_of).collect()
}

fn record_of(mut row: Row) -> Result<(Handle, Record), StoreError> {
    let handle = Handle(*row.array()?);
    let kind = row.text()?;
    let half = row.array()?;
    let half = match kind.as_str() {
        "public" => Half::Public(VerifyKey(*half)),
        "shared" => Half::Shared(*half),
        _ => return Err(StoreError::Damaged("a key has an unknown kind of half")),
    };
    let user = row.text()?;
    let not_after = Calendar(row.number()?);
    let refusals = refusals_of(&mut row)?;
    let ppk = match row.value() {
        Value::Octets(octets) => octets.first_chunk().map(KeyPpk::of_octets),
        _ => None,
    };
    let state = match row.text()?.as_str() {
        "valid" => State::Valid,
        "revoked" => State::Revoked,
        "taken" => State::Taken {
            request: Digest(*row.array()?),
            at: Calendar(row.number()?),
        },
        "failed" => State::Failed {
            request: Digest(*row.array()?),
        },
        "used" => State::Used {
            request: Digest(*row.array()?),
            answer: {
                row.number()?;
                match row.value() {
                    Value::Octets(answer) => Some(answer.to_vec()),
                    _ => None,
                }
            },
        },
        _ => return Err(StoreError::Damaged("a key has an unknown state")),
    };
    let record = Record {
        half,
        user,
        not_after,
        state,
        refusals,
        ppk,
    };
    Ok((handle, record))
}

fn refusals_of(row: &mut Row) -> Result<Refusals, StoreError> {
    let octets = match row.value() {
        Value::Octets(octets) => octets,
        _ => Zeroizing::default(),
    };
    let (requests, rest) = octets.as_chunks::<32>();
    let wrong_users = u32::try_from(row.number()?);
    match (wrong_users, rest) {
        (Ok(wrong_users), []) => Ok(Refusals {
            requests: requests.iter().copied().map(Digest).collect(),
            wrong_users,
        }),
        _ => Err(StoreError::Damaged("a key has unknown refusals")),
    }
}
