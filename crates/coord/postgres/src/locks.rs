//! Locks that lapse, with fences (CL-*).

use esker_coord_api::{Channel, LocalName, LockAttempt, Name};
use tokio_postgres::types::Type;

use crate::{Error, queues::next_time, shared::Shared, text::escape};

const TAKE: &str = "SELECT held_fence, lapses_at, wait_ms FROM {schema}.try_lock($1, $2, $3, $4)";

/// Takes a lock, or finds out who has it.
pub(crate) async fn take(
    shared: &Shared,
    name: &Name,
    owner: &LocalName,
    ttl: i64,
) -> Result<LockAttempt, Error> {
    let rows = shared
        .database
        .write(
            TAKE,
            &[
                (&shared.database.now(), Type::INT8),
                (&name.as_str(), Type::TEXT),
                (&escape(owner.as_str()), Type::TEXT),
                (&ttl, Type::INT8),
            ],
        )
        .await?;
    let row = rows.first().ok_or(Error::Lost)?;
    let until = next_time(row.get(1), row.get(2)).ok_or(Error::Lost)?;
    Ok(match row.get(0) {
        Some(fence) => LockAttempt::Held { fence, until },
        None => LockAttempt::Lost(until),
    })
}

const RENEW: &str = "UPDATE {schema}.locks l SET expires_at = {schema}.after(c.now_s, $4) \
    FROM (SELECT {schema}.clock($1) AS now_s OFFSET 0) c \
    WHERE l.name = $2 AND l.fence = $3 AND l.owner IS NOT NULL AND l.expires_at > c.now_s RETURNING 1";

/// Gives a lock that is still held a full new window.
pub(crate) async fn renew(shared: &Shared, name: &Name, fence: i64, ttl: i64) -> Result<bool, Error> {
    let rows = shared
        .database
        .write(
            RENEW,
            &[
                (&shared.database.now(), Type::INT8),
                (&name.as_str(), Type::TEXT),
                (&fence, Type::INT8),
                (&ttl, Type::INT8),
            ],
        )
        .await?;
    Ok(!rows.is_empty())
}

const RELEASE: &str = "UPDATE {schema}.locks SET owner = NULL \
    WHERE name = $2 AND fence = $3 AND owner IS NOT NULL AND expires_at > {schema}.clock($1) RETURNING 1";

/// Gives a lock back. Its row stays, with the fence.
pub(crate) async fn release(shared: &Shared, name: &Name, fence: i64) -> Result<bool, Error> {
    let rows = shared
        .database
        .write(
            RELEASE,
            &[
                (&shared.database.now(), Type::INT8),
                (&name.as_str(), Type::TEXT),
                (&fence, Type::INT8),
            ],
        )
        .await?;
    let released = !rows.is_empty();
    shared.wake(Channel::released(name).filter(|_| released));
    Ok(released)
}
