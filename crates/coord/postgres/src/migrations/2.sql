-- Results of these change.
DROP FUNCTION IF EXISTS {schema}.claim(bigint, text[], text[], bigint[], bigint[], bigint);
DROP FUNCTION IF EXISTS {schema}.ack(bigint, text[], bigint[], bigint[], text[]);

-- Claims begin at the head of an index, where those that are gone gather: a vacuum must never leave them there.
ALTER TABLE {schema}.jobs SET (vacuum_index_cleanup = on);
