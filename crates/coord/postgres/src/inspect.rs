//! What the store holds, counted (CI-01).

use std::collections::BTreeMap;

use esker_coord_api::{
    ConsumerInspection, Inspection, LockInspection, QueueInspection, ScheduleInspection, Spec,
    StreamInspection,
};
use tokio_postgres::types::Type;

use crate::{Error, database::Database, held::Held, text::unescape};

const QUEUES: &str =
    "SELECT queue, ready, scheduled, running, dead, oldest, now_s FROM {schema}.counts($1) ORDER BY queue";

const STREAMS: &str = "SELECT s.name, (SELECT min(e.event_offset) FROM {schema}.events e WHERE e.stream = s.name), \
    s.last_offset FROM {schema}.streams s ORDER BY s.name";

const CONSUMERS: &str = "SELECT stream, coalesce(long_name, consumer), saved_offset FROM {schema}.consumers";

const LOCKS: &str = "SELECT l.name, l.owner, l.fence, l.expires_at - c.now_s FROM {schema}.locks l, \
    (SELECT {schema}.clock($1) AS now_s OFFSET 0) c \
    WHERE l.owner IS NOT NULL AND l.expires_at > c.now_s ORDER BY l.name";

const SCHEDULES: &str = "SELECT name, every_s, queue, next_at FROM {schema}.schedules ORDER BY name";

const SIZE: &str = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'";

/// Looks at one snapshot of everything.
pub(crate) async fn inspect(database: &Database) -> Result<Inspection, Error> {
    let mut snapshot = Held::begin(database, "ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let now = database.now();
    let queues = snapshot.query(QUEUES, &[(&now, Type::INT8)]).await?;
    let streams = snapshot.query(STREAMS, &[]).await?;
    let mut consumers: BTreeMap<String, Vec<(String, i64)>> = BTreeMap::new();
    for row in snapshot.query(CONSUMERS, &[]).await? {
        consumers
            .entry(row.get(0))
            .or_default()
            .push((unescape(row.get(1)), row.get(2)));
    }
    let locks = snapshot.query(LOCKS, &[(&now, Type::INT8)]).await?;
    let schedules = snapshot.query(SCHEDULES, &[]).await?;
    let size = snapshot.query(SIZE, &[(&database.schema(), Type::TEXT)]).await?;
    snapshot.commit().await?;
    let number = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok(Inspection {
        queues: queues
            .iter()
            .map(|row| QueueInspection {
                name: row.get(0),
                ready: number(row.get(1)),
                scheduled: number(row.get(2)),
                running: number(row.get(3)),
                dead: number(row.get(4)),
                oldest_ready_s: row
                    .get::<_, Option<i64>>(5)
                    .map(|oldest| row.get::<_, i64>(6).saturating_sub(oldest)),
            })
            .collect(),
        streams: streams
            .iter()
            .map(|row| {
                let (name, last): (String, i64) = (row.get(0), row.get(2));
                let mut consumers = consumers.remove(&name).unwrap_or_default();
                consumers.sort();
                StreamInspection {
                    first: row.get(1),
                    last,
                    consumers: consumers
                        .into_iter()
                        .map(|(consumer, offset)| ConsumerInspection::new(consumer, offset, last))
                        .collect(),
                    name,
                }
            })
            .collect(),
        locks: locks
            .iter()
            .map(|row| LockInspection {
                name: row.get(0),
                owner: unescape(row.get(1)),
                fence: row.get(2),
                expires_in_s: row.get(3),
            })
            .collect(),
        schedules: schedules
            .iter()
            .map(|row| ScheduleInspection {
                name: row.get(0),
                spec: Spec::every(row.get(1)).map_or_else(|error| error.to_string(), |spec| spec.to_string()),
                queue: row.get(2),
                next: row.get(3),
            })
            .collect(),
        size_bytes: size.first().map(|row| number(row.get(0))),
    })
}
