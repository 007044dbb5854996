-- What the store does in the database: made anew whenever a migration has run, so that a migration only drops those whose
-- arguments or results it changes. The functions choose their plans by the indexes alone, and once: statistics of
-- tables that live this fast are never true.

-- The time of an operation, in seconds: the one that a test gives, else the database's. All other times come from here.
CREATE OR REPLACE FUNCTION {schema}.exact_clock(given bigint) RETURNS double precision LANGUAGE sql VOLATILE
AS $$ SELECT coalesce(given::double precision, extract(epoch FROM clock_timestamp())::double precision) $$;

-- The same in whole seconds.
CREATE OR REPLACE FUNCTION {schema}.clock(given bigint) RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT coalesce(given, floor({schema}.exact_clock(NULL))::bigint) $$;

-- A sum of seconds that stays within what a bigint holds.
CREATE OR REPLACE FUNCTION {schema}.after(start bigint, seconds bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE
    WHEN seconds > 0 AND start > 9223372036854775807 - seconds THEN 9223372036854775807
    WHEN seconds < 0 AND start < (-9223372036854775807 - 1) - seconds THEN -9223372036854775807 - 1
    ELSE start + seconds END $$;

-- Milliseconds from now to a time, none when it has passed.
CREATE OR REPLACE FUNCTION {schema}.wait_ms(until_s bigint, now_exact double precision) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT least(greatest(ceil((until_s - now_exact) * 1000), 0), 9e18)::bigint $$;

-- Appends events, and gives for each stream the offset before its first. The streams must be sorted, so that batches
-- that share some wait for each other rather than lock each other out. Counters are taken here, last in their
-- transaction, so that the order of commits is the order of offsets.
CREATE OR REPLACE FUNCTION {schema}.publish(
    given_now bigint, stream_names text[], stream_counts bigint[],
    event_streams int[], event_ranks bigint[], event_keys text[], event_payloads bytea[]
) RETURNS bigint[] LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now_s bigint := {schema}.clock(given_now);
    bases bigint[] := '{}';
    taken bigint;
BEGIN
    FOR i IN 1 .. cardinality(stream_names) LOOP
        UPDATE {schema}.streams s SET last_offset = s.last_offset + stream_counts[i]
            WHERE s.name = stream_names[i] RETURNING s.last_offset INTO taken;
        IF NOT FOUND THEN
            INSERT INTO {schema}.streams AS s (name, last_offset) VALUES (stream_names[i], stream_counts[i])
                ON CONFLICT (name) DO UPDATE SET last_offset = s.last_offset + excluded.last_offset
                RETURNING s.last_offset INTO taken;
        END IF;
        bases := bases || (taken - stream_counts[i]);
    END LOOP;
    INSERT INTO {schema}.events (stream, event_offset, created_at, key, payload)
        SELECT stream_names[e.stream], bases[e.stream] + e.rank, now_s, e.key, e.payload
        FROM unnest(event_streams, event_ranks, event_keys, event_payloads) AS e (stream, rank, key, payload);
    RETURN bases;
END $$;

CREATE OR REPLACE FUNCTION {schema}.read_events(wanted text, beyond bigint, consumer_key text, most bigint)
RETURNS TABLE (event_offset bigint, created_at bigint, key text, payload bytea)
LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    IF consumer_key IS NOT NULL THEN
        beyond := coalesce((SELECT c.saved_offset FROM {schema}.consumers c
            WHERE c.stream = wanted AND c.consumer = consumer_key), 0);
    END IF;
    RETURN QUERY SELECT e.event_offset, e.created_at, e.key, e.payload FROM {schema}.events e
        WHERE e.stream = wanted AND e.event_offset > beyond ORDER BY e.event_offset LIMIT most;
END $$;

-- Stores jobs, and gives their ids, in order.
CREATE OR REPLACE FUNCTION {schema}.enqueue(
    given_now bigint, queue_names text[], job_queues int[], delays bigint[], run_ats bigint[], priorities bigint[],
    expiries bigint[], attempts_allowed bigint[], visibilities bigint[], backoffs bigint[], retentions bigint[],
    boundaries bigint[], payloads bytea[]
) RETURNS bigint[] LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now_s bigint := {schema}.clock(given_now);
    ids bigint[];
BEGIN
    FOR i IN 1 .. cardinality(queue_names) LOOP
        PERFORM FROM {schema}.queues q WHERE q.name = queue_names[i];
        IF NOT FOUND THEN
            INSERT INTO {schema}.queues VALUES (queue_names[i]);
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(job_queues) LOOP
        ids[i] := nextval('{schema}.job_id');
    END LOOP;
    INSERT INTO {schema}.jobs (id, queue, run_at, expires_at, priority, max_attempts, visibility_timeout_s,
            backoff_base_s, dead_letter_retention_s, created_at, boundary, payload)
        SELECT j.id, queue_names[j.queue], r.run_at, {schema}.after(r.run_at, j.expires), j.priority, j.attempts,
            j.visibility, j.backoff, j.retention, now_s, j.boundary, j.payload
        FROM unnest(ids, job_queues, delays, run_ats, priorities, expiries, attempts_allowed, visibilities, backoffs,
                retentions, boundaries, payloads)
            AS j (id, queue, delay, run_at, priority, expires, attempts, visibility, backoff, retention, boundary,
                payload),
            LATERAL (SELECT coalesce({schema}.after(now_s, j.delay), j.run_at, now_s) AS run_at) r;
    RETURN ids;
END $$;

-- Moves live jobs to the dead letters, and tells how many. Without a reason, their attempts are spent.
CREATE OR REPLACE FUNCTION {schema}.bury(now_s bigint, ids bigint[], reason text) RETURNS bigint
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    moved bigint;
BEGIN
    WITH gone AS (DELETE FROM {schema}.jobs j WHERE j.id = ANY (ids) RETURNING j.*)
    INSERT INTO {schema}.dead (id, queue, priority, run_at, attempts, max_attempts, visibility_timeout_s,
            backoff_base_s, dead_letter_retention_s, created_at, expires_at, boundary, died_at, delete_at, last_error,
            payload)
        SELECT g.id, g.queue, g.priority, g.run_at, g.attempts, g.max_attempts, g.visibility_timeout_s,
            g.backoff_base_s, g.dead_letter_retention_s, g.created_at, g.expires_at, g.boundary, now_s,
            {schema}.after(now_s, g.dead_letter_retention_s),
            coalesce(reason, g.last_error, 'max attempts exceeded'), g.payload
        FROM gone g;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;

-- Does for a queue what the clock has decided, at most `most` jobs of each kind: expired and spent ones go to the dead
-- letters, lapsed ones into the order of claims, where they keep their state for who looks. Tells how many died.
CREATE OR REPLACE FUNCTION {schema}.settle(now_s bigint, wanted text, most bigint) RETURNS bigint
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    expired bigint[];
    others bigint[];
    died bigint := 0;
BEGIN
    FOR held IN 1 .. 2 LOOP
        SELECT array_agg(l.id) FILTER (WHERE l.is_expired), array_agg(l.id) FILTER (WHERE NOT l.is_expired)
            INTO expired, others
            FROM (SELECT j.id, j.expires_at IS NOT NULL AND j.expires_at <= now_s AS is_expired FROM {schema}.jobs j
                WHERE j.queue = wanted AND j.lane = held AND j.lane > 0 AND j.claim_expires_at < now_s
                ORDER BY j.claim_expires_at LIMIT most FOR UPDATE SKIP LOCKED) l;
        IF expired IS NOT NULL THEN
            died := died + {schema}.bury(now_s, expired, 'expired');
        END IF;
        IF others IS NOT NULL AND held = 1 THEN
            -- Their time has come before, though the clock may have been set back since.
            UPDATE {schema}.jobs j SET lane = 0, run_at = least(j.run_at, now_s) WHERE j.id = ANY (others);
        ELSIF others IS NOT NULL THEN
            died := died + {schema}.bury(now_s, others, NULL);
        END IF;
    END LOOP;
    expired := ARRAY(SELECT j.id FROM {schema}.jobs j
        WHERE j.queue = wanted AND j.lane = 0 AND j.expires_at IS NOT NULL AND j.expires_at <= now_s
            AND (j.token IS NULL OR j.claim_expires_at < now_s)
        ORDER BY j.expires_at LIMIT most FOR UPDATE SKIP LOCKED);
    IF cardinality(expired) > 0 THEN
        died := died + {schema}.bury(now_s, expired, 'expired');
    END IF;
    RETURN died;
END $$;

-- Claims jobs for several requests, which must be sorted by queue: those of one queue share what is found, the first in
-- order of claims to the first request. Within one priority the due jobs are a prefix by `run_at`, so each priority is
-- entered once, at its first job, and left at the first that is not due: what waits costs nothing. Where jobs died of
-- what the clock had decided, a row for request 0 tells how many, as its place.
CREATE OR REPLACE FUNCTION {schema}.claim(
    given_now bigint, request_queues text[], request_workers text[], request_tokens bigint[], request_counts bigint[],
    most_settled bigint
) RETURNS TABLE (
    request int, place bigint, id bigint, state smallint, payload bytea, priority bigint, run_at bigint,
    attempts bigint, max_attempts bigint, visibility_timeout_s bigint, backoff_base_s bigint,
    dead_letter_retention_s bigint, worker text, claimed_at bigint, claim_expires_at bigint, created_at bigint,
    expires_at bigint, boundary bigint, last_error text, died_at bigint
) LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now_s bigint := {schema}.clock(given_now);
    wanted text;
    first_request int := 1;
    -- Where among what is found each request of the queue begins, counted from 1.
    starts bigint[];
    room bigint;
    below bigint;
    level bigint;
    due bigint[];
    picked bigint[];
BEGIN
    WHILE first_request <= cardinality(request_queues) LOOP
        wanted := request_queues[first_request];
        starts := '{}';
        room := 0;
        FOR i IN first_request .. cardinality(request_queues) LOOP
            EXIT WHEN request_queues[i] <> wanted;
            starts := starts || {schema}.after(room, 1);
            room := {schema}.after(room, request_counts[i]);
        END LOOP;
        PERFORM FROM {schema}.jobs j
            WHERE j.queue = wanted AND j.lane = ANY ('{1,2}') AND j.lane > 0 AND j.claim_expires_at < now_s
            UNION ALL SELECT FROM {schema}.jobs j
            WHERE j.queue = wanted AND j.lane = 0 AND j.expires_at IS NOT NULL AND j.expires_at <= now_s
            LIMIT 1;
        IF FOUND THEN
            place := {schema}.settle(now_s, wanted, most_settled);
            IF place > 0 THEN
                request := 0;
                RETURN NEXT;
            END IF;
        END IF;
        picked := '{}';
        below := 9223372036854775807;
        WHILE cardinality(picked) < room LOOP
            SELECT f.priority, ARRAY(SELECT j.id FROM {schema}.jobs j
                    WHERE j.queue = wanted AND j.lane = 0 AND j.priority = f.priority AND j.run_at <= now_s
                        AND (j.run_at, j.id) >= (f.run_at, f.id)
                        AND (j.expires_at IS NULL OR j.expires_at > now_s)
                        AND (j.token IS NULL OR j.claim_expires_at < now_s)
                    ORDER BY j.run_at, j.id LIMIT room - cardinality(picked) FOR UPDATE SKIP LOCKED)
                INTO level, due
                FROM (SELECT j.priority, j.run_at, j.id FROM {schema}.jobs j
                    WHERE j.queue = wanted AND j.lane = 0 AND j.priority <= below
                    ORDER BY j.priority DESC, j.run_at, j.id LIMIT 1) f;
            EXIT WHEN NOT FOUND;
            picked := picked || due;
            EXIT WHEN level = -9223372036854775807 - 1;
            below := level - 1;
        END LOOP;
        IF cardinality(picked) > 0 THEN
            RETURN QUERY UPDATE {schema}.jobs j SET
                    lane = CASE WHEN j.attempts + 1 < j.max_attempts THEN 1 ELSE 2 END,
                    attempts = j.attempts + 1, token = request_tokens[p.request],
                    worker = request_workers[p.request], claimed_at = now_s,
                    claim_expires_at = {schema}.after(now_s, j.visibility_timeout_s)
                FROM (SELECT u.id, u.place, width_bucket(u.place, starts) + first_request - 1 AS request
                    FROM unnest(picked) WITH ORDINALITY AS u (id, place)) p
                WHERE j.id = p.id
                RETURNING p.request, p.place, j.id, 1::smallint, j.payload, j.priority, j.run_at, j.attempts,
                    j.max_attempts, j.visibility_timeout_s, j.backoff_base_s, j.dead_letter_retention_s, j.worker,
                    j.claimed_at, j.claim_expires_at, j.created_at, j.expires_at, j.boundary, j.last_error,
                    NULL::bigint;
        END IF;
        first_request := first_request + cardinality(starts);
    END LOOP;
END $$;

-- Deletes the jobs of claims that still hold, and gives the places of those claims.
CREATE OR REPLACE FUNCTION {schema}.ack(
    given_now bigint, queues text[], ids bigint[], tokens bigint[], workers text[]
) RETURNS SETOF bigint LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now_s bigint := {schema}.clock(given_now);
BEGIN
    RETURN QUERY DELETE FROM {schema}.jobs j
        USING unnest(queues, ids, tokens, workers) WITH ORDINALITY AS c (queue, id, token, worker, place)
        WHERE j.id = c.id AND j.queue = c.queue AND j.token = c.token AND j.worker = c.worker
            AND j.claim_expires_at >= now_s
        RETURNING c.place;
END $$;

-- Ends a claim that still holds: `verb` is `retry`, `fail` or `release`. Tells whether the job waits again; null when the
-- claim did not hold.
CREATE OR REPLACE FUNCTION {schema}.settle_claim(
    given_now bigint, wanted text, job bigint, claim bigint, holder text, verb text, error text, delay bigint
) RETURNS boolean LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now_s bigint := {schema}.clock(given_now);
    spent boolean;
BEGIN
    SELECT j.attempts >= j.max_attempts INTO spent FROM {schema}.jobs j
        WHERE j.id = job AND j.queue = wanted AND j.token = claim AND j.worker = holder
            AND j.claim_expires_at >= now_s
        FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF verb = 'fail' THEN
        PERFORM {schema}.bury(now_s, ARRAY[job], coalesce(error, 'failed'));
        RETURN false;
    ELSIF verb = 'retry' AND spent THEN
        PERFORM {schema}.bury(now_s, ARRAY[job], error);
        RETURN false;
    ELSE
        UPDATE {schema}.jobs j SET lane = 0, token = NULL, worker = NULL, claimed_at = NULL, claim_expires_at = NULL,
            attempts = CASE verb WHEN 'release' THEN j.attempts - 1 ELSE j.attempts END,
            run_at = CASE verb WHEN 'release' THEN j.run_at ELSE {schema}.after(now_s, delay) END,
            last_error = coalesce(error, j.last_error)
            WHERE j.id = job;
        RETURN true;
    END IF;
END $$;

-- When a claim will next find something, and how many milliseconds away that is; both null when nothing waits.
CREATE OR REPLACE FUNCTION {schema}.next_ready(given_now bigint, wanted text) RETURNS TABLE (ready_at bigint, wait_ms bigint)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    exact double precision := {schema}.exact_clock(given_now);
    now_s bigint := coalesce(given_now, floor(exact)::bigint);
    below bigint := 9223372036854775807;
    level bigint;
    found_at bigint;
    soonest bigint;
BEGIN
    LOOP
        SELECT j.priority INTO level FROM {schema}.jobs j
            WHERE j.queue = wanted AND j.lane = 0 AND j.priority <= below ORDER BY j.priority DESC LIMIT 1;
        EXIT WHEN NOT FOUND;
        -- A job that expired, or that will have when it is due, is none. One that lapsed is due since then.
        SELECT greatest(j.run_at, now_s, {schema}.after(j.claim_expires_at, 1)) INTO found_at FROM {schema}.jobs j
            WHERE j.queue = wanted AND j.lane = 0 AND j.priority = level
                AND (j.expires_at IS NULL
                    OR j.expires_at > greatest(j.run_at, now_s, {schema}.after(j.claim_expires_at, 1)))
            ORDER BY j.run_at, j.id LIMIT 1;
        IF FOUND THEN
            soonest := least(soonest, found_at);
        END IF;
        EXIT WHEN soonest <= now_s OR level = -9223372036854775807 - 1;
        below := level - 1;
    END LOOP;
    IF soonest IS NULL OR soonest > now_s THEN
        -- The last second of all has none after it in which a claim could lapse.
        SELECT j.claim_expires_at + 1 INTO found_at FROM {schema}.jobs j
            WHERE j.queue = wanted AND j.lane = 1 AND j.lane > 0 AND j.claim_expires_at < 9223372036854775807
                AND (j.expires_at IS NULL OR j.expires_at > greatest(j.claim_expires_at + 1, now_s))
            ORDER BY j.claim_expires_at LIMIT 1;
        IF FOUND THEN
            soonest := least(soonest, greatest(found_at, now_s));
        END IF;
    END IF;
    RETURN QUERY SELECT soonest, {schema}.wait_ms(soonest, exact);
END $$;

-- Takes a lock that is free or lapsed, or finds it held by this owner: gives its fence, else null and when it lapses.
CREATE OR REPLACE FUNCTION {schema}.try_lock(given_now bigint, wanted text, wisher text, ttl bigint)
RETURNS TABLE (held_fence bigint, lapses_at bigint, wait_ms bigint) LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    exact double precision := {schema}.exact_clock(given_now);
    now_s bigint := coalesce(given_now, floor(exact)::bigint);
    found_lock {schema}.locks;
BEGIN
    -- Who loses only reads.
    SELECT * INTO found_lock FROM {schema}.locks l WHERE l.name = wanted;
    IF NOT FOUND OR found_lock.owner IS NULL OR found_lock.expires_at <= now_s THEN
        INSERT INTO {schema}.locks AS l (name, fence, owner, expires_at)
            VALUES (wanted, 1, wisher, {schema}.after(now_s, ttl))
            ON CONFLICT (name) DO UPDATE
                SET fence = l.fence + 1, owner = excluded.owner, expires_at = excluded.expires_at
                WHERE l.owner IS NULL OR l.expires_at <= now_s
            RETURNING l.* INTO found_lock;
        IF NOT FOUND THEN
            SELECT * INTO found_lock FROM {schema}.locks l WHERE l.name = wanted;
        END IF;
    END IF;
    IF found_lock.owner = wisher THEN
        held_fence := found_lock.fence;
    END IF;
    lapses_at := found_lock.expires_at;
    RETURN QUERY SELECT held_fence, lapses_at, {schema}.wait_ms(lapses_at, exact);
END $$;

-- Does what the clock has decided, for all of a queue: expired jobs die whoever holds them, and dead ones past their
-- retention are deleted. Tells how many died.
CREATE OR REPLACE FUNCTION {schema}.sweep(given_now bigint, wanted text) RETURNS bigint
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now_s bigint := {schema}.clock(given_now);
    died bigint;
BEGIN
    died := {schema}.bury(now_s, ARRAY(SELECT j.id FROM {schema}.jobs j
        WHERE j.queue = wanted AND j.expires_at IS NOT NULL AND j.expires_at <= now_s
        ORDER BY j.id FOR UPDATE), 'expired');
    died := died + {schema}.settle(now_s, wanted, 9223372036854775807);
    DELETE FROM {schema}.dead d WHERE d.queue = wanted AND d.delete_at IS NOT NULL AND d.delete_at <= now_s;
    RETURN died;
END $$;

-- Makes dead jobs of a queue pending again, and tells how many; all of them where no job is named.
CREATE OR REPLACE FUNCTION {schema}.redrive(given_now bigint, wanted text, job bigint) RETURNS bigint
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now_s bigint := {schema}.clock(given_now);
    moved bigint;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.dead d
        -- One plan for both: bounds that the index knows.
        WHERE d.queue = wanted AND d.id >= coalesce(job, -9223372036854775807 - 1)
            AND d.id <= coalesce(job, 9223372036854775807) RETURNING d.*)
    INSERT INTO {schema}.jobs (id, queue, run_at, priority, max_attempts, visibility_timeout_s, backoff_base_s,
            dead_letter_retention_s, created_at, boundary, last_error, payload)
        SELECT g.id, g.queue, now_s, g.priority, g.max_attempts, g.visibility_timeout_s, g.backoff_base_s,
            g.dead_letter_retention_s, g.created_at, g.boundary, g.last_error, g.payload
        FROM gone g;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;

-- How many jobs each queue has, since when the oldest of the ready ones is due, and the time. What the indexes know is
-- enough, so that no job is read where a vacuum has been since it changed; the server, which knows where, may decide
-- otherwise.
CREATE OR REPLACE FUNCTION {schema}.counts(given_now bigint) RETURNS TABLE (
    queue text, ready bigint, scheduled bigint, running bigint, dead bigint, oldest bigint, now_s bigint
) LANGUAGE plpgsql
SET jit = off SET enable_nestloop = off
AS $$
#variable_conflict use_column
BEGIN
    now_s := {schema}.clock(given_now);
    RETURN QUERY SELECT q.name, coalesce(o.ready, 0), coalesce(o.scheduled, 0),
            coalesce(h.held, 0) + coalesce(l.lapsed, 0), coalesce(d.dead, 0), o.oldest, now_s
        FROM (SELECT DISTINCT name FROM {schema}.queues) q
        LEFT JOIN (SELECT j.queue, count(*) FILTER (WHERE j.run_at <= now_s) AS ready,
                count(*) FILTER (WHERE j.run_at > now_s) AS scheduled,
                min(j.run_at) FILTER (WHERE j.run_at <= now_s) AS oldest
            FROM {schema}.jobs j
            WHERE j.lane = 0 AND NOT EXISTS (SELECT FROM {schema}.jobs x
                WHERE x.lane = 0 AND x.token IS NOT NULL AND x.id = j.id)
            GROUP BY j.queue) o ON o.queue = q.name
        LEFT JOIN (SELECT j.queue, count(*) AS held FROM {schema}.jobs j WHERE j.lane > 0
            GROUP BY j.queue) h ON h.queue = q.name
        LEFT JOIN (SELECT j.queue, count(*) AS lapsed FROM {schema}.jobs j WHERE j.lane = 0 AND j.token IS NOT NULL
            GROUP BY j.queue) l ON l.queue = q.name
        LEFT JOIN (SELECT x.queue, count(*) AS dead FROM {schema}.dead x GROUP BY x.queue) d ON d.queue = q.name;
END $$;
