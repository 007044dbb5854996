-- What the store keeps. Times are unix seconds. Texts that callers chose freely are escaped, because Postgres keeps no
-- NUL.

-- One number for each store that is opened, by which it knows its own notifications.
CREATE SEQUENCE {schema}.store_number;

-- The counters of the streams. A row is locked from the moment that its offsets are taken to the commit.
CREATE TABLE {schema}.streams (
    name text COLLATE "C" PRIMARY KEY,
    last_offset bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE {schema}.events (
    stream text COLLATE "C" NOT NULL,
    event_offset bigint NOT NULL,
    created_at bigint NOT NULL,
    key text,
    payload bytea NOT NULL,
    PRIMARY KEY (stream, event_offset)
);

-- A consumer's key is its name, or a digest of one that no index can hold; then the name stands beside it.
CREATE TABLE {schema}.consumers (
    stream text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    long_name text,
    saved_offset bigint NOT NULL,
    PRIMARY KEY (stream, consumer)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The queues that have jobs, or had. Not unique: a transaction that is held must keep nobody from a new queue.
CREATE TABLE {schema}.queues (name text COLLATE "C" NOT NULL);
CREATE INDEX queues_name ON {schema}.queues (name);

CREATE SEQUENCE {schema}.job_id;

-- Live jobs. `lane` says where a job is looked for: 0 in the order of claims (pending, or found lapsed), 1 among the
-- claims with attempts left, 2 among the claims that are a job's last. `token` is null while a job is pending.
CREATE TABLE {schema}.jobs (
    id bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    lane smallint NOT NULL DEFAULT 0,
    priority bigint NOT NULL,
    run_at bigint NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL,
    visibility_timeout_s bigint NOT NULL,
    backoff_base_s bigint NOT NULL,
    dead_letter_retention_s bigint,
    created_at bigint NOT NULL,
    expires_at bigint,
    boundary bigint,
    token bigint,
    claimed_at bigint,
    claim_expires_at bigint,
    worker text,
    last_error text,
    payload bytea NOT NULL
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.01,
    toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX jobs_open ON {schema}.jobs (queue, priority DESC, run_at, id) WHERE lane = 0;
CREATE INDEX jobs_held ON {schema}.jobs (queue, lane, claim_expires_at) WHERE lane > 0;
CREATE INDEX jobs_open_expiring ON {schema}.jobs (queue, expires_at) WHERE lane = 0 AND expires_at IS NOT NULL;

CREATE TABLE {schema}.dead (
    id bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    run_at bigint NOT NULL,
    attempts bigint NOT NULL,
    max_attempts bigint NOT NULL,
    visibility_timeout_s bigint NOT NULL,
    backoff_base_s bigint NOT NULL,
    dead_letter_retention_s bigint,
    created_at bigint NOT NULL,
    expires_at bigint,
    boundary bigint,
    died_at bigint NOT NULL,
    delete_at bigint,
    last_error text,
    payload bytea NOT NULL
);
CREATE INDEX dead_queue ON {schema}.dead (queue, id);

-- A lock's row stays when the lock is given back, so that its fence only grows. `owner` is null then.
CREATE TABLE {schema}.locks (
    name text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL,
    owner text,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE {schema}.schedules (
    name text COLLATE "C" PRIMARY KEY,
    every_s bigint NOT NULL,
    next_at bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    expires_s bigint,
    max_attempts bigint NOT NULL,
    visibility_timeout_s bigint NOT NULL,
    backoff_base_s bigint NOT NULL,
    dead_letter_retention_s bigint,
    payload bytea NOT NULL
);
