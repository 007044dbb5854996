//! The coordination tables.

use crate::Schema;

/// The coordination tables, for a [`Database`](crate::Database) that other components share.
pub const SCHEMA: Schema = Schema {
    component: "coord",
    migrations: &[TABLES],
};

/// Names are integers in every table but their own. Indexes are few and narrow, because each is paid for by every job:
///
/// - `coord_job_ready` has the jobs that can be claimed now or later, in the order of claims. A claim takes a job out.
/// - `coord_job_flight` has the claimed jobs by deadline: those for whose lapse it is worth to wait, those that would then
///   have no attempt left or have expired, and those that lapsed and are ready again.
/// - `coord_job_expiry` has only jobs that expire.
///
/// Dead jobs are in a table of their own, where no claim meets them. A large payload is in a table of its own, so that a
/// claim rewrites a small row.
const TABLES: &str = "
    CREATE TABLE coord_wake (
        id INTEGER PRIMARY KEY,
        origin INTEGER NOT NULL,
        channel TEXT NOT NULL
    ) STRICT;

    CREATE TABLE coord_stream (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        -- The newest offset ever given; trims and rollbacks do not touch it (CS-03).
        last INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE coord_event (
        -- The stream's id in the high bits, the offset in the low ones.
        place INTEGER PRIMARY KEY,
        created_at INTEGER NOT NULL,
        key TEXT,
        payload BLOB NOT NULL
    ) STRICT;
    CREATE TABLE coord_consumer (
        stream INTEGER NOT NULL,
        name TEXT NOT NULL,
        position INTEGER NOT NULL,
        PRIMARY KEY (stream, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE coord_queue (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    ) STRICT;
    -- One row: the newest job id ever given, so that none is used twice.
    CREATE TABLE coord_job_id (last INTEGER NOT NULL) STRICT;
    INSERT INTO coord_job_id VALUES (0);
    CREATE TABLE coord_job (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        -- 0: not claimed. 1: claimed, and can be claimed again after the deadline. 2: claimed for the last time.
        -- 3: the claim has lapsed, and a later one found it so.
        flight INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        run_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        -- The claim: all set or none. One that lapsed stays until the next.
        deadline INTEGER,
        claimed_at INTEGER,
        token INTEGER,
        worker TEXT,
        max_attempts INTEGER NOT NULL,
        visibility_timeout INTEGER NOT NULL,
        backoff_base INTEGER NOT NULL,
        retention INTEGER,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        boundary INTEGER,
        last_error TEXT,
        -- NULL: in coord_payload.
        payload BLOB
    ) STRICT;
    CREATE INDEX coord_job_ready ON coord_job (queue, priority DESC, run_at) WHERE flight IN (0, 3);
    CREATE INDEX coord_job_flight ON coord_job (queue, flight, deadline) WHERE flight > 0;
    CREATE INDEX coord_job_expiry ON coord_job (queue, flight, expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE coord_payload (
        job INTEGER PRIMARY KEY,
        payload BLOB NOT NULL
    ) STRICT;
    CREATE TABLE coord_dead (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        run_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL,
        visibility_timeout INTEGER NOT NULL,
        backoff_base INTEGER NOT NULL,
        retention INTEGER,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        boundary INTEGER,
        last_error TEXT NOT NULL,
        died_at INTEGER NOT NULL,
        -- When the retention ends.
        kept_until INTEGER,
        payload BLOB NOT NULL
    ) STRICT;
    CREATE INDEX coord_dead_queue ON coord_dead (queue);
    CREATE INDEX coord_dead_retention ON coord_dead (queue, kept_until) WHERE kept_until IS NOT NULL;

    CREATE TABLE coord_lock (
        name TEXT PRIMARY KEY NOT NULL,
        -- The newest fence; the row stays for it (CL-03).
        fence INTEGER NOT NULL,
        owner TEXT,
        expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX coord_lock_held ON coord_lock (expires_at) WHERE owner IS NOT NULL;

    CREATE TABLE coord_schedule (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        every INTEGER NOT NULL,
        next INTEGER NOT NULL,
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        expires INTEGER,
        max_attempts INTEGER NOT NULL,
        visibility_timeout INTEGER NOT NULL,
        backoff_base INTEGER NOT NULL,
        retention INTEGER,
        payload BLOB NOT NULL
    ) STRICT;
    CREATE INDEX coord_schedule_next ON coord_schedule (next);
";
