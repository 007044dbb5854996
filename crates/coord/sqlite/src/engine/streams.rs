//! Streams: events at consecutive places, offsets from a counter per stream, and what consumers saved (CS-*).

use esker_coord_api::{Channel, Cursor, LocalName, Name, NewEvent, Payload, StreamEvent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Error, Transaction};

/// Bits of a place that are the offset's: 10^12 events in each of 8 million streams. One integer key keeps events
/// in the order of reading, and appends cheap.
const OFFSET_BITS: u32 = 40;
const MOST_OFFSET: i64 = (1 << OFFSET_BITS) - 1;
const MOST_STREAM: i64 = i64::MAX >> OFFSET_BITS;

pub(crate) const ADVANCE: &str =
    "UPDATE coord_stream SET last = last + ?2 WHERE name = ?1 RETURNING id, last";
pub(crate) const ADD: &str = "INSERT INTO coord_stream (name) VALUES (?1)";
pub(crate) const INSERT: &str =
    "INSERT INTO coord_event (place, created_at, key, payload) VALUES (?1, ?2, ?3, ?4)";
pub(crate) const FIND: &str = "SELECT id FROM coord_stream WHERE name = ?1";
pub(crate) const READ: &str = "SELECT place, created_at, key, payload FROM coord_event \
     WHERE place > ?1 AND place <= ?2 ORDER BY place LIMIT ?3";
pub(crate) const POSITION: &str = "SELECT position FROM coord_consumer WHERE stream = ?1 AND name = ?2";
pub(crate) const SAVE: &str = "INSERT INTO coord_consumer (stream, name, position) VALUES (?1, ?2, ?3) \
     ON CONFLICT DO UPDATE SET position = excluded.position WHERE excluded.position > position";
pub(crate) const TRIM: &str = "DELETE FROM coord_event WHERE place > ?1 AND place <= ?2";

/// Appends events, and gives their offsets. The writer's transaction is the only one, so commit order is offset order
/// (CS-04), and a rollback takes the counter back with the events (CS-03).
pub(crate) fn publish(
    tx: &mut Transaction<'_>,
    stream: &Name,
    events: &[NewEvent],
    now: i64,
) -> Result<Vec<i64>, Error> {
    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
    if count == 0 {
        return Ok(Vec::new());
    }
    let (id, last) = advance(tx.sql(), stream, count)?;
    if last > MOST_OFFSET || id > MOST_STREAM {
        return Err(Error::Exhausted("offsets of the stream, or streams"));
    }
    let offsets: Vec<i64> = (last - count + 1..=last).collect();
    let mut insert = tx.sql().prepare_cached(INSERT)?;
    for (event, offset) in events.iter().zip(&offsets) {
        insert.execute(params![
            place(id, *offset),
            now,
            event.key(),
            event.payload().as_bytes()
        ])?;
    }
    drop(insert);
    tx.wake(&Channel::stream(stream));
    Ok(offsets)
}

fn advance(conn: &Connection, stream: &Name, count: i64) -> rusqlite::Result<(i64, i64)> {
    let mut advance = conn.prepare_cached(ADVANCE)?;
    let mut once = || {
        advance.query_one(params![stream.as_str(), count], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    };
    if let Some(advanced) = once().optional()? {
        return Ok(advanced);
    }
    conn.prepare_cached(ADD)?.execute([stream.as_str()])?;
    once()
}

/// Events beyond the cursor, ascending (CS-05).
pub(crate) fn read(
    conn: &Connection,
    stream: &Name,
    from: &Cursor,
    limit: usize,
) -> Result<Vec<StreamEvent>, Error> {
    let Some(id) = find(conn, stream)? else {
        return Ok(Vec::new());
    };
    let after = match from {
        Cursor::After(offset) => *offset,
        Cursor::Saved(consumer) => position(conn, id, consumer)?,
    };
    let event = |row: &Row<'_>| {
        Ok(StreamEvent {
            offset: row.get::<_, i64>(0)? & MOST_OFFSET,
            stream: stream.clone(),
            created_at: row.get(1)?,
            key: row.get(2)?,
            payload: Payload::new(row.get::<_, Vec<u8>>(3)?),
        })
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut read = conn.prepare_cached(READ)?;
    let events = read.query_map(params![place(id, after), place(id, i64::MAX), limit], event)?;
    Ok(events.collect::<rusqlite::Result<_>>()?)
}

/// Saves an offset, unless it is below the saved one (CS-06).
pub(crate) fn save_offset(
    conn: &Connection,
    stream: &Name,
    consumer: &LocalName,
    offset: i64,
) -> Result<(), Error> {
    let id = if let Some(id) = find(conn, stream)? {
        id
    } else {
        conn.prepare_cached(ADD)?.execute([stream.as_str()])?;
        conn.last_insert_rowid()
    };
    conn.prepare_cached(SAVE)?
        .execute(params![id, consumer.as_str(), offset.max(0)])?;
    Ok(())
}

/// A consumer's saved offset, 0 when there is none.
pub(crate) fn get_offset(conn: &Connection, stream: &Name, consumer: &LocalName) -> Result<i64, Error> {
    match find(conn, stream)? {
        Some(id) => Ok(position(conn, id, consumer)?),
        None => Ok(0),
    }
}

/// Deletes events up to and including the horizon (CS-08).
pub(crate) fn trim_to(conn: &Connection, stream: &Name, horizon: i64) -> Result<u64, Error> {
    let Some(id) = find(conn, stream)? else {
        return Ok(0);
    };
    let trimmed = conn
        .prepare_cached(TRIM)?
        .execute([place(id, 0), place(id, horizon)])?;
    Ok(u64::try_from(trimmed).unwrap_or(u64::MAX))
}

fn find(conn: &Connection, stream: &Name) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(FIND)?
        .query_one([stream.as_str()], |row| row.get(0))
        .optional()
}

fn position(conn: &Connection, stream: i64, consumer: &LocalName) -> rusqlite::Result<i64> {
    let saved = conn
        .prepare_cached(POSITION)?
        .query_one(params![stream, consumer.as_str()], |row| row.get(0))
        .optional()?;
    Ok(saved.unwrap_or(0))
}

/// Where the event of this offset is, or would be: every i64 is defined, and stays within the stream.
pub(crate) fn place(stream: i64, offset: i64) -> i64 {
    stream << OFFSET_BITS | offset.clamp(0, MOST_OFFSET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cx_05_every_offset_stays_within_its_stream() {
        for offset in [i64::MIN, -1, 0, 1, MOST_OFFSET, MOST_OFFSET + 1, i64::MAX] {
            let place = place(7, offset);
            assert_eq!(place >> OFFSET_BITS, 7);
            assert_eq!(place & MOST_OFFSET, offset.clamp(0, MOST_OFFSET));
        }
        assert!(place(MOST_STREAM, i64::MAX) > 0);
    }
}
