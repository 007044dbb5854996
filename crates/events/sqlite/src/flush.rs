//! Writing a slice of the waiting tag rows to the file, and taking removed events' rows out of it.

use std::{collections::HashSet, sync::Arc};

use esker_coord_sqlite::{
    Error, Transaction,
    rusqlite::{Connection, params},
};

use crate::{
    deferred::{Deferred, Row},
    keys::Key,
    slices::{SLICES, Slices, slice_of, slice_start},
    view::blob,
};

/// Writes the next slice, in key order, and tells how many rows that was.
///
/// Slices take turns, so a removed event's grave has done its work once every slice had its turn.
pub(crate) fn flush_slice(tx: &mut Transaction<'_>, deferred: &Arc<Deferred>) -> Result<usize, Error> {
    let mut slices = Slices::read(tx.sql())?;
    let slice = slices.next();
    let complete = slices.complete_to[slice];
    let (derived_to, waiting) = deferred.waiting(slice, complete);
    let graves = Graves::of_slice(tx.sql(), slice)?;

    let mut inserts: Vec<(i64, Row)> = waiting
        .into_iter()
        .filter(|(_, row)| !graves.removed.contains(&row.key.seq))
        .collect();
    inserts.sort_unstable_by_key(|(tag, row)| (*tag, row.kind, row.key));
    let mut deletes: Vec<(i64, Row)> = graves
        .rows
        .into_iter()
        .filter(|(_, row)| row.key.seq <= complete)
        .collect();
    deletes.sort_unstable_by_key(|(tag, row)| (*tag, row.kind, row.key));

    insert_rows(tx.sql(), &inserts)?;
    delete_rows(tx.sql(), &deletes)?;
    slices.complete_to[slice] = derived_to;
    slices.flushes += 1;
    slices.write(tx.sql())?;
    if let Some(done) = slices.flushes.checked_sub(SLICES as u64) {
        tx.sql()
            .prepare_cached("DELETE FROM tag_graves WHERE flush <= ?1")?
            .execute([done])?;
    }

    let deferred = Arc::clone(deferred);
    tx.after_commit(move || deferred.flushed(slice, derived_to));
    Ok(inserts.len() + deletes.len())
}

/// Leaves the rows of a removed event to the coming flushes.
pub(crate) fn dig_grave(sql: &Connection, rows: &crate::rows::TagRows) -> Result<(), Error> {
    if rows.tags.is_empty() {
        return Ok(());
    }
    let tags: Vec<u8> = rows.tags.iter().flat_map(|tag| tag.to_be_bytes()).collect();
    sql.prepare_cached(
        "INSERT INTO tag_graves (flush, seq, kind, time, place, tags)
         SELECT flushes, ?1, ?2, ?3, ?4, ?5 FROM event_store",
    )?
    .execute(params![
        rows.key.seq,
        rows.kind,
        rows.key.time,
        rows.key.place,
        tags
    ])?;
    Ok(())
}

/// The removed events whose rows are not all out of the index yet.
struct Graves {
    removed: HashSet<i64>,
    /// Their rows that belong to the slice.
    rows: Vec<(i64, Row)>,
}

impl Graves {
    fn of_slice(sql: &Connection, slice: usize) -> Result<Self, Error> {
        let mut statement = sql.prepare_cached("SELECT seq, kind, time, place, tags FROM tag_graves")?;
        let mut graves = statement.query([])?;
        let mut all = Self {
            removed: HashSet::new(),
            rows: Vec::new(),
        };
        let start = slice_start(slice);
        while let Some(grave) = graves.next()? {
            let key = Key {
                seq: grave.get(0)?,
                time: grave.get(2)?,
                place: grave.get(3)?,
            };
            let row = Row {
                kind: grave.get(1)?,
                key,
            };
            all.removed.insert(key.seq);
            let (tags, _) = blob(grave, 4)?.as_chunks::<8>();
            let first = tags.partition_point(|tag| i64::from_be_bytes(*tag) < start);
            let tags = tags[first..].iter().map(|tag| i64::from_be_bytes(*tag));
            all.rows.extend(
                tags.take_while(|tag| slice_of(*tag) == slice)
                    .map(|tag| (tag, row)),
            );
        }
        Ok(all)
    }
}

fn insert_rows(sql: &Connection, rows: &[(i64, Row)]) -> Result<(), Error> {
    let mut statement = sql.prepare_cached(
        "INSERT OR IGNORE INTO by_tag (tag, kind, time, place, seq) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (tag, Row { kind, key }) in rows {
        statement.execute(params![tag, kind, key.time, key.place, key.seq])?;
    }
    Ok(())
}

fn delete_rows(sql: &Connection, rows: &[(i64, Row)]) -> Result<(), Error> {
    let mut statement = sql.prepare_cached(
        "DELETE FROM by_tag WHERE tag = ?1 AND kind = ?2 AND time = ?3 AND place = ?4 AND seq = ?5",
    )?;
    for (tag, Row { kind, key }) in rows {
        statement.execute(params![tag, kind, key.time, key.place, key.seq])?;
    }
    Ok(())
}
