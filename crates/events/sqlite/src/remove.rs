//! Taking an event out of every table, in the writer's transaction.

use bytes::Bytes;
use esker_coord_sqlite::{
    Error,
    rusqlite::{self, Connection, params},
};
use esker_events_api::{Address, Change, deletion::Targets};
use esker_nostr::{Event, EventFields, kind};

use crate::{
    flush::dig_grave,
    keys::{self, Key, Secret},
    rows::TagRows,
    tally::Tally,
    view::blob,
};

/// Removes a stored event, and tells the followers.
pub(crate) fn remove(
    sql: &Connection,
    secret: Secret,
    seq: i64,
    json: Bytes,
    tally: &mut Tally,
    changes: &mut Vec<Change>,
) -> Result<(), Error> {
    let event = parse_stored(json.clone())?;
    let key = Key::of(&event, seq);
    let (kind, author) = (event.kind(), keys::author(event.pubkey()));
    let run = |statement: &str, values: &[i64]| -> Result<(), Error> {
        let values = esker_coord_sqlite::rusqlite::params_from_iter(values);
        sql.prepare_cached(statement)?.execute(values)?;
        Ok(())
    };
    run("DELETE FROM events WHERE seq = ?1", &[seq])?;
    run(
        "DELETE FROM by_id WHERE place = ?1 AND seq = ?2",
        &[key.place, seq],
    )?;
    run(
        "DELETE FROM by_time WHERE time = ?1 AND place = ?2 AND seq = ?3",
        &[key.time, key.place, seq],
    )?;
    run(
        "DELETE FROM by_kind WHERE kind = ?1 AND time = ?2 AND place = ?3 AND seq = ?4",
        &[kind.into(), key.time, key.place, seq],
    )?;
    run(
        "DELETE FROM by_author WHERE author = ?1 AND kind = ?2 AND time = ?3 AND place = ?4 AND seq = ?5",
        &[author, kind.into(), key.time, key.place, seq],
    )?;
    if let Some(address) = Address::of(&event) {
        run(
            "DELETE FROM by_address WHERE address = ?1 AND seq = ?2",
            &[secret.address(&address), seq],
        )?;
    }
    if let Some(expires) = event.expiration() {
        run(
            "DELETE FROM by_expiry WHERE expires = ?1 AND seq = ?2",
            &[expires, seq],
        )?;
    }
    for target in deletion_keys(&event, secret) {
        run(
            "DELETE FROM deletions WHERE target = ?1 AND seq = ?2",
            &[target, seq],
        )?;
    }
    if kind == kind::VANISH {
        run(
            "DELETE FROM vanishes WHERE author = ?1 AND seq = ?2",
            &[author, seq],
        )?;
    }
    dig_grave(sql, &TagRows::of(&event, seq, secret))?;
    tally.removed(kind, json.len());
    changes.push(Change::Removed(json));
    Ok(())
}

/// The keys under which a kind 5 is found by what it names; none for other kinds.
pub(crate) fn deletion_keys(event: &Event, secret: Secret) -> Vec<i64> {
    let targets = Targets::of(event);
    let ids = targets.ids.iter().map(|id| secret.deleted_id(*id));
    let addresses = targets
        .addresses
        .iter()
        .map(|address| secret.deleted_address(address));
    ids.chain(addresses).collect()
}

/// The JSON of a stored event, if it is stored.
pub(crate) fn fetch(sql: &Connection, seq: i64) -> Result<Option<Bytes>, Error> {
    let mut statement = sql.prepare_cached("SELECT json FROM events WHERE seq = ?1")?;
    let mut rows = statement.query(params![seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Bytes::copy_from_slice(blob(row, 0)?)))
}

/// A stored event, parsed.
pub(crate) fn parse_stored(json: Bytes) -> Result<Event, Error> {
    Event::from_canonical(json).map_err(|error| {
        let damaged =
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error));
        Error::from(damaged)
    })
}
