//! The slices of the tag index: equal ranges of its key, and up to which event the file has each.

use esker_coord_sqlite::{
    Error,
    rusqlite::{Connection, params},
};

/// How many slices there are. Part of the file's format.
pub(crate) const SLICES: usize = 128;

/// The slice that a tag key belongs to: an equal range of keys, so that a flush touches neighbouring pages.
pub(crate) fn slice_of(tag: i64) -> usize {
    let spread = u128::from(tag.cast_unsigned() ^ (1 << 63)) * SLICES as u128;
    usize::try_from(spread >> 64).expect("a slice is below SLICES")
}

/// The lowest tag key of a slice.
pub(crate) fn slice_start(slice: usize) -> i64 {
    let start = ((slice as u128) << 64).div_ceil(SLICES as u128);
    (u64::try_from(start).unwrap_or(u64::MAX) ^ (1 << 63)).cast_signed()
}

/// For each slice the `seq` up to which the file has its rows, and how many slices were ever flushed.
#[derive(Debug, Clone)]
pub(crate) struct Slices {
    pub(crate) complete_to: Box<[i64]>,
    pub(crate) flushes: u64,
}

impl Slices {
    pub(crate) fn read(sql: &Connection) -> Result<Self, Error> {
        let mut statement = sql.prepare_cached("SELECT slices, flushes FROM event_store")?;
        let slices = statement.query_row([], |row| {
            let (chunks, _) = row.get_ref(0)?.as_blob()?.as_chunks::<8>();
            let complete_to = chunks.iter().map(|seq| i64::from_be_bytes(*seq)).collect();
            Ok(Self {
                complete_to,
                flushes: row.get(1)?,
            })
        })?;
        Ok(slices)
    }

    pub(crate) fn write(&self, sql: &Connection) -> Result<(), Error> {
        let slices: Vec<u8> = self
            .complete_to
            .iter()
            .flat_map(|seq| seq.to_be_bytes())
            .collect();
        sql.prepare_cached("UPDATE event_store SET slices = ?1, flushes = ?2")?
            .execute(params![slices, self.flushes])?;
        Ok(())
    }

    /// The slice whose turn it is.
    pub(crate) fn next(&self) -> usize {
        usize::try_from(self.flushes % SLICES as u64).expect("a slice is below SLICES")
    }

    /// The `seq` up to which every slice is complete.
    pub(crate) fn least(&self) -> i64 {
        self.complete_to.iter().copied().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_part_the_whole_range_of_tag_keys() {
        assert_eq!((slice_start(0), slice_of(i64::MIN)), (i64::MIN, 0));
        assert_eq!(slice_of(i64::MAX), SLICES - 1);
        for slice in 1..SLICES {
            assert_eq!(slice_of(slice_start(slice)), slice);
            assert_eq!(slice_of(slice_start(slice) - 1), slice - 1);
        }
    }
}
