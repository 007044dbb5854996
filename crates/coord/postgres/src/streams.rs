//! Streams: appends that share a commit, reads, and saved offsets (CS-*).

use std::collections::BTreeMap;

use esker_coord_api::{Channel, Cursor, LocalName, Name, NewEvent, Payload, StreamEvent};
use tokio_postgres::{Row, types::Type};

use crate::{
    Error,
    batch::Work,
    database::{Database, Parameter},
    job::one,
    shared::Shared,
    text::{escape, key, unescape},
};

/// Payload bytes that fill as much of a batch as one event or job does.
pub(crate) const BYTES_PER_PLACE: usize = 4096;

/// Events of one caller.
pub(crate) struct Publish {
    pub(crate) stream: Name,
    pub(crate) events: Vec<NewEvent>,
}

impl Work for Publish {
    type Answer = Vec<i64>;

    const IN_FLIGHT: usize = 2;

    fn weight(&self) -> usize {
        let bytes: usize = self
            .events
            .iter()
            .map(|event| event.payload().as_bytes().len())
            .sum();
        self.events.len() + bytes / BYTES_PER_PLACE
    }

    async fn run(shared: &Shared, works: &[&Self]) -> Result<Vec<Vec<i64>>, Error> {
        let all = works
            .iter()
            .flat_map(|work| work.events.iter().map(|event| (&work.stream, event)));
        let append = Append::new(shared.database.now(), all);
        let rows = shared.database.write(Append::SQL, &append.parameters()).await?;
        let mut offsets = append.offsets(&rows)?.into_iter();
        shared.wake_for(works.len(), append.streams().map(Channel::stream));
        Ok(works
            .iter()
            .map(|work| offsets.by_ref().take(work.events.len()).collect())
            .collect())
    }
}

/// Events on their way into the database, a column each.
pub(crate) struct Append<'a> {
    now: Option<i64>,
    /// Sorted, so that appends that share streams wait for each other in one order.
    streams: Vec<&'a Name>,
    names: Vec<&'a str>,
    counts: Vec<i64>,
    places: Vec<i32>,
    ranks: Vec<i64>,
    keys: Vec<Option<String>>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> Append<'a> {
    pub(crate) const SQL: &'static str = "SELECT {schema}.publish($1, $2, $3, $4, $5, $6, $7)";

    pub(crate) fn new(
        now: Option<i64>,
        events: impl Iterator<Item = (&'a Name, &'a NewEvent)> + Clone,
    ) -> Self {
        let mut counts: BTreeMap<&Name, (i32, i64)> =
            events.clone().map(|(stream, _)| (stream, (0, 0))).collect();
        for ((place, _), number) in counts.values_mut().zip(1..) {
            *place = number;
        }
        let (mut places, mut ranks, mut keys, mut payloads) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (stream, event) in events {
            let (place, count) = counts.get_mut(stream).expect("every stream was counted");
            *count += 1;
            places.push(*place);
            ranks.push(*count);
            keys.push(event.key().map(|key| escape(key).into_owned()));
            payloads.push(event.payload().as_bytes());
        }
        let streams: Vec<&Name> = counts.keys().copied().collect();
        let names = streams.iter().map(|stream| stream.as_str()).collect();
        let counts = counts.into_values().map(|(_, count)| count).collect();
        Self {
            now,
            streams,
            names,
            counts,
            places,
            ranks,
            keys,
            payloads,
        }
    }

    pub(crate) fn parameters(&self) -> [Parameter<'_>; 7] {
        [
            (&self.now, Type::INT8),
            (&self.names, Type::TEXT_ARRAY),
            (&self.counts, Type::INT8_ARRAY),
            (&self.places, Type::INT4_ARRAY),
            (&self.ranks, Type::INT8_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.payloads, Type::BYTEA_ARRAY),
        ]
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = &'a Name> {
        self.streams.iter().copied()
    }

    /// The offset of each event, in the order in which they came.
    fn offsets(&self, rows: &[Row]) -> Result<Vec<i64>, Error> {
        let bases: Vec<i64> = one(rows)?;
        let base = |place: i32| bases[usize::try_from(place - 1).expect("places begin at 1")];
        Ok(self
            .places
            .iter()
            .zip(&self.ranks)
            .map(|(place, rank)| base(*place) + rank)
            .collect())
    }
}

/// The read of a stream, for [`Database::read`] or a transaction.
pub(crate) struct Reading {
    stream: Name,
    name: String,
    after: i64,
    consumer: Option<String>,
    limit: i64,
}

impl Reading {
    pub(crate) const SQL: &'static str = "SELECT * FROM {schema}.read_events($1, $2, $3, $4)";

    pub(crate) fn new(stream: Name, from: Cursor, limit: usize) -> Self {
        let (after, consumer) = match from {
            Cursor::After(offset) => (offset, None),
            Cursor::Saved(consumer) => (0, Some(key(consumer.as_str()).0.into_owned())),
        };
        Self {
            name: stream.to_string(),
            stream,
            after,
            consumer,
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        }
    }

    pub(crate) fn parameters(&self) -> [Parameter<'_>; 4] {
        [
            (&self.name, Type::TEXT),
            (&self.after, Type::INT8),
            (&self.consumer, Type::TEXT),
            (&self.limit, Type::INT8),
        ]
    }

    pub(crate) fn events(&self, rows: &[Row]) -> Vec<StreamEvent> {
        let event = |row: &Row| StreamEvent {
            offset: row.get(0),
            stream: self.stream.clone(),
            created_at: row.get(1),
            key: row.get::<_, Option<String>>(2).map(unescape),
            payload: Payload::from(row.get::<_, Vec<u8>>(3)),
        };
        rows.iter().map(event).collect()
    }
}

pub(crate) const SAVE_OFFSET: &str = "INSERT INTO {schema}.consumers AS c (stream, consumer, long_name, saved_offset) \
    VALUES ($1, $2, $3, greatest($4, 0)) ON CONFLICT (stream, consumer) \
    DO UPDATE SET saved_offset = excluded.saved_offset WHERE c.saved_offset < excluded.saved_offset";

pub(crate) const GET_OFFSET: &str =
    "SELECT saved_offset FROM {schema}.consumers WHERE stream = $1 AND consumer = $2";

/// The saving of an offset, for [`Database::write`] or a transaction.
pub(crate) struct Saving {
    stream: String,
    key: String,
    long_name: Option<String>,
    offset: i64,
}

impl Saving {
    pub(crate) fn new(stream: &Name, consumer: &LocalName, offset: i64) -> Self {
        let (key, long_name) = key(consumer.as_str());
        let long_name = long_name.map(std::borrow::Cow::into_owned);
        Self {
            stream: stream.to_string(),
            key: key.into_owned(),
            long_name,
            offset,
        }
    }

    /// For [`SAVE_OFFSET`].
    pub(crate) fn parameters(&self) -> [Parameter<'_>; 4] {
        [
            (&self.stream, Type::TEXT),
            (&self.key, Type::TEXT),
            (&self.long_name, Type::TEXT),
            (&self.offset, Type::INT8),
        ]
    }

    /// For [`GET_OFFSET`].
    pub(crate) fn whose(&self) -> [Parameter<'_>; 2] {
        [(&self.stream, Type::TEXT), (&self.key, Type::TEXT)]
    }
}

/// The answer of [`GET_OFFSET`]: 0 when there is none.
pub(crate) fn saved(rows: &[Row]) -> i64 {
    rows.first().map_or(0, |row| row.get(0))
}

const TRIM: &str = "WITH gone AS (DELETE FROM {schema}.events WHERE stream = $1 AND event_offset <= $2 RETURNING 1) \
    SELECT count(*) FROM gone";

pub(crate) async fn trim(database: &Database, stream: &Name, horizon: i64) -> Result<u64, Error> {
    let rows = database
        .write(TRIM, &[(&stream.as_str(), Type::TEXT), (&horizon, Type::INT8)])
        .await?;
    Ok(u64::try_from(one::<i64>(&rows)?).unwrap_or(0))
}
