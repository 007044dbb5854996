//! The tables of the event store, and its migrations.

use esker_coord_sqlite::Schema;

/// The component's migrations; the version is how many ran.
pub(crate) const SCHEMA: Schema = Schema {
    component: "events",
    migrations: &[VERSION_1],
};

// `seq` is the event's offset on the accepted-events stream: assigned in commit order and never used again.
// The index tables are covering and without rowid: what a walk needs is in the key, and one lookup by `seq`
// fetches the event. Times are unix seconds; `place` is the id's first 64 bits, inverted (see `keys.rs`).
const VERSION_1: &str = "
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    kind    INTEGER NOT NULL CHECK (kind NOT BETWEEN 20000 AND 29999),
    expires INTEGER,
    json    BLOB NOT NULL
) STRICT;

CREATE TABLE by_id (
    place INTEGER NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL,
    PRIMARY KEY (place, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE by_time (
    time INTEGER NOT NULL, place INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (time, place, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE by_kind (
    kind INTEGER NOT NULL, time INTEGER NOT NULL, place INTEGER NOT NULL, seq INTEGER NOT NULL,
    author INTEGER NOT NULL,
    PRIMARY KEY (kind, time, place, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE by_author (
    author INTEGER NOT NULL, kind INTEGER NOT NULL, time INTEGER NOT NULL, place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (author, kind, time, place, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE by_tag (
    tag INTEGER NOT NULL, kind INTEGER NOT NULL, time INTEGER NOT NULL, place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, kind, time, place, seq)
) STRICT, WITHOUT ROWID;

-- The one stored version of each replaceable or addressable event.
CREATE TABLE by_address (
    address INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (address, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE by_expiry (
    expires INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (expires, seq)
) STRICT, WITHOUT ROWID;

-- What the stored deletion requests name, so that it stays out.
CREATE TABLE deletions (
    target INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (target, seq)
) STRICT, WITHOUT ROWID;

-- The honoured vanish requests, by author.
CREATE TABLE vanishes (
    author INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (author, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE kinds (
    kind INTEGER PRIMARY KEY, events INTEGER NOT NULL, bytes INTEGER NOT NULL
) STRICT;

-- Removed events whose rows of by_tag are not all removed yet; `flush` is the number of the flush that was
-- next when the event was removed, `tags` its tag keys, sorted, eight bytes each.
CREATE TABLE tag_graves (
    grave INTEGER PRIMARY KEY, flush INTEGER NOT NULL,
    seq INTEGER NOT NULL, kind INTEGER NOT NULL, time INTEGER NOT NULL, place INTEGER NOT NULL,
    tags BLOB NOT NULL
) STRICT;
CREATE INDEX tag_graves_by_flush ON tag_graves (flush);

CREATE TABLE event_store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Keys the hashes of this file's indexes.
    secret BLOB NOT NULL,
    -- Rows of by_tag are written later, a slice of the key range at a time (see `deferred.rs`): for each of the
    -- 128 slices the seq up to which the file has the rows of every event, eight bytes each; and how many slices
    -- were flushed in all.
    slices  BLOB NOT NULL,
    flushes INTEGER NOT NULL
) STRICT;
INSERT INTO event_store VALUES (1, randomblob(16), zeroblob(128 * 8), 0);
";
