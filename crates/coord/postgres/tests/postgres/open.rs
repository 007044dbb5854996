//! Opening: the schema, its version, and who may share a database.

use esker_coord_api::{JobState, QueueOptions, Store};
use esker_coord_postgres::{Error, Options, PostgresEngine};

use crate::support::Database;

#[tokio::test(flavor = "multi_thread")]
async fn cx_08_what_was_written_is_there_when_the_store_is_opened_again() {
    let database = Database::new();
    let store = database.open().await;
    let stream = store.stream("orders").unwrap();
    assert_eq!(stream.publish("first").await.unwrap(), 1);
    assert_eq!(
        stream.publish_with_key(Some("k\0"), vec![0, 255]).await.unwrap(),
        2
    );
    let queue = store.queue("mails", QueueOptions::default()).unwrap();
    let id = queue.enqueue("welcome").await.unwrap();
    store.close().await;
    assert!(matches!(
        stream.publish("late").await,
        Err(esker_coord_api::Error::Closed)
    ));

    let store = database.open().await;
    let events = store.stream("orders").unwrap().read_since(0, 10).await.unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(
        (
            events[1].offset,
            events[1].key.as_deref(),
            events[1].payload.as_bytes()
        ),
        (2, Some("k\0"), &[0, 255][..])
    );
    let queue = store.queue("mails", QueueOptions::default()).unwrap();
    let handle = queue.claim_one("worker").await.unwrap().unwrap();
    assert_eq!(
        (handle.job().id, handle.job().state, handle.job().attempts),
        (id, JobState::Processing, 1)
    );
    assert!(handle.ack().await.unwrap());
    assert!(!handle.ack().await.unwrap());
    let inspection = store.inspect().await.unwrap();
    assert_eq!((inspection.queues.len(), inspection.streams[0].last), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_09_many_processes_open_one_new_database_at_once() {
    let database = Database::new();
    let url = database.url();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                PostgresEngine::open(&url, Options::default())
                    .await
                    .map(Store::new)
            })
        })
        .collect();
    for (number, opened) in (1..).zip(opening) {
        let store = opened.await.unwrap().unwrap();
        let last = store.stream("s").unwrap().publish("one each").await.unwrap();
        assert_eq!(last, number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_09_a_schema_that_is_newer_is_refused() {
    let database = Database::new();
    database.open().await.close().await;
    let client = database.client().await;
    client
        .batch_execute("UPDATE esker.version SET version = 1000")
        .await
        .unwrap();
    let refused = PostgresEngine::open(&database.url(), Options::default())
        .await
        .err()
        .unwrap();
    assert!(
        matches!(refused, Error::NewerSchema { found: 1000, .. }),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains("esker has version 1000"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_09_a_schema_of_an_earlier_version_is_migrated_with_what_is_in_it() {
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    let queue = |store: &Store| store.queue("kept", QueueOptions::default()).unwrap();
    queue(&store).enqueue("job").await.unwrap();
    store.close().await;
    // Nobody builds an index any more, which would be in the way of this. What the first version had, as far as the second differs.
    let client = database.client().await;
    let back = "DROP FUNCTION esker.claim, esker.ack; ALTER TABLE esker.jobs RESET (vacuum_index_cleanup); \
        CREATE FUNCTION esker.claim(bigint, text[], text[], bigint[], bigint[], bigint) RETURNS TABLE (request int) \
            LANGUAGE sql AS 'SELECT 1'; \
        CREATE FUNCTION esker.ack(bigint, text[], bigint[], bigint[], text[]) RETURNS bigint[] \
            LANGUAGE sql AS 'SELECT NULL::bigint[]'; \
        UPDATE esker.version SET version = 1";
    client.batch_execute(back).await.unwrap();
    let store = database.open_settled(Options::default()).await;
    let job = queue(&store).claim_one("worker").await.unwrap().unwrap();
    assert_eq!(job.job().payload.as_bytes(), b"job");
    assert!(job.ack().await.unwrap());
    let options = "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = 'esker.jobs'::regclass";
    let options: String = client.query_one(options, &[]).await.unwrap().get(0);
    assert!(options.contains("vacuum_index_cleanup=on"), "{options}");
    store.close().await;
    // What the second had, as far as the third differs.
    let back = "DROP FUNCTION esker.exact_clock; \
        CREATE OR REPLACE FUNCTION esker.redrive(given_now bigint, wanted text, job bigint) RETURNS bigint \
            LANGUAGE sql AS 'SELECT 0::bigint'; \
        UPDATE esker.version SET version = 2";
    client.batch_execute(back).await.unwrap();
    let store = database.open_settled(Options::default()).await;
    let id = queue(&store).enqueue("job").await.unwrap();
    let job = queue(&store).claim_one("worker").await.unwrap().unwrap();
    assert!(job.fail(None).await.unwrap());
    assert!(queue(&store).redrive(id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_09_a_migration_that_others_were_in_the_way_of_is_tried_again() {
    let database = Database::new();
    let client = database.client().await;
    // The server undoes the first of its statements, as it does with one of those that wait for each other.
    let deadlock = "CREATE SEQUENCE tries; \
        CREATE FUNCTION once() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
            IF nextval('tries') = 1 THEN RAISE EXCEPTION 'in the way' USING ERRCODE = 'deadlock_detected'; END IF; \
        END $$; \
        CREATE EVENT TRIGGER once ON ddl_command_start EXECUTE FUNCTION once()";
    client.batch_execute(deadlock).await.unwrap();
    let store = database.open().await;
    assert_eq!(store.stream("s").unwrap().publish("x").await.unwrap(), 1);
    let tries: i64 = client
        .query_one("SELECT last_value FROM tries", &[])
        .await
        .unwrap()
        .get(0);
    assert!(tries > 1, "{tries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_02_where_no_schema_is_to_be_made_none_is() {
    let database = Database::new();
    let only = |url: String| async move {
        let options = Options {
            create: false,
            ..Options::default()
        };
        PostgresEngine::open(&url, options).await.map(Store::new)
    };
    let refused = only(database.url()).await.err().unwrap();
    assert!(
        matches!(&refused, Error::NoSchema(schema) if schema == "esker"),
        "{refused:?}"
    );
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'esker'";
    let client = database.client().await;
    assert_eq!(client.query_one(schemas, &[]).await.unwrap().get::<_, i64>(0), 0);
    database.open().await.close().await;
    only(database.url()).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_02_stores_in_two_schemas_of_one_database_do_not_mix() {
    let database = Database::new();
    let one = database.open().await;
    let url = format!("{}?schema=Other-1&pool_size=3", database.url());
    let other = Store::new(PostgresEngine::open(&url, Options::default()).await.unwrap());
    let mut heard = other.listen("news").await.unwrap();
    let mut queue_heard = other
        .queue("q", QueueOptions::default())
        .unwrap()
        .listen()
        .await
        .unwrap();
    one.notify("news", "for one").await.unwrap();
    one.queue("q", QueueOptions::default())
        .unwrap()
        .enqueue("for one")
        .await
        .unwrap();
    assert_eq!(one.stream("s").unwrap().publish("for one").await.unwrap(), 1);
    assert_eq!(other.stream("s").unwrap().publish("for other").await.unwrap(), 1);
    assert!(
        other
            .queue("q", QueueOptions::default())
            .unwrap()
            .claim_one("w")
            .await
            .unwrap()
            .is_none()
    );
    // What comes first is the other's own.
    other.notify("news", "for other").await.unwrap();
    assert_eq!(heard.recv().await.unwrap().channel, "news");
    assert!(heard.try_recv().unwrap().is_none());
    assert!(queue_heard.try_recv().unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_indexes_of_maintenance_are_built_while_the_store_works_and_repaired_when_they_were_left_unusable()
 {
    let database = Database::new();
    let client = database.client().await;
    let valid = "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid IN \
        (to_regclass('esker.jobs_expiring'), to_regclass('esker.dead_retained'), to_regclass('esker.jobs_lapsed'))";
    let spoil = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'esker.jobs_expiring'::regclass";
    for spoils in [true, false] {
        let store = database.open_settled(Options::default()).await;
        assert_eq!(client.query_one(valid, &[]).await.unwrap().get::<_, i64>(0), 3);
        store.close().await;
        if spoils {
            // As a build that was interrupted leaves it.
            client.batch_execute(spoil).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_tables_whose_rows_live_fast_are_vacuumed_for_it() {
    let database = Database::new();
    database.open().await;
    let options = "SELECT c.relname || coalesce(' ' || (SELECT string_agg(o, ' ' ORDER BY o) FROM unnest(c.reloptions) o), '') \
        || coalesce(' toast ' || (SELECT string_agg(o, ' ' ORDER BY o) FROM unnest(t.reloptions) o), '') \
        FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid \
        WHERE c.relnamespace = 'esker'::regnamespace AND c.relkind = 'r' ORDER BY c.relname";
    let rows = database.client().await.query(options, &[]).await.unwrap();
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let often = "autovacuum_vacuum_scale_factor=0 autovacuum_vacuum_threshold=1000 fillfactor";
    let soon =
        "autovacuum_vacuum_cost_delay=0 autovacuum_vacuum_scale_factor=0.01 autovacuum_vacuum_threshold=1000";
    let expected = [
        format!("consumers {often}=50"),
        "dead".to_owned(),
        "events".to_owned(),
        format!("jobs {soon} fillfactor=70 vacuum_index_cleanup=on toast {soon}"),
        format!("locks {often}=50"),
        "queues".to_owned(),
        "schedules".to_owned(),
        format!("streams {often}=20"),
        "version".to_owned(),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_09_who_may_not_make_a_schema_opens_the_one_that_is_there() {
    let database = Database::new();
    database.open().await.close().await;
    let client = database.client().await;
    let role = format!("{}_role", database.name());
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA esker TO {role}; \
             GRANT ALL ON ALL TABLES IN SCHEMA esker TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA esker TO {role}"
        ))
        .await
        .unwrap();
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    let store = Store::new(PostgresEngine::open(&url, Options::default()).await.unwrap());
    assert_eq!(store.stream("s").unwrap().publish("allowed").await.unwrap(), 1);
    store.close().await;
    client
        .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_09_who_may_only_read_can_look() {
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    store.stream("s").unwrap().publish("event").await.unwrap();
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let id = queue.enqueue("job").await.unwrap();
    store.close().await;
    let client = database.client().await;
    let role = format!("{}_reader", database.name());
    let rights = "CREATE ROLE {role} LOGIN; ALTER ROLE {role} SET default_transaction_read_only = on; \
        GRANT USAGE ON SCHEMA esker TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA esker TO {role}"
        .replace("{role}", &role);
    client.batch_execute(&rights).await.unwrap();
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    let options = Options {
        create: false,
        ..Options::default()
    };
    let reader = Store::new(PostgresEngine::open(&url, options).await.unwrap());
    let seen = reader.inspect().await.unwrap();
    assert_eq!((seen.queues[0].ready, seen.streams[0].last), (1, 1));
    let events = reader.stream("s").unwrap().read_since(0, 9).await.unwrap();
    assert_eq!(events[0].payload.as_bytes(), b"event");
    let queue = reader.queue("q", QueueOptions::default()).unwrap();
    assert!(queue.get_job(id).await.unwrap().is_some());
    assert!(queue.enqueue("refused").await.is_err());
    reader.close().await;
    let gone = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    client.batch_execute(&gone).await.unwrap();
}
