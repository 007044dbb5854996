//! A database of a test's own, on the server that `./test` started.

use std::{
    env, process,
    sync::atomic::{AtomicU32, Ordering},
};

use esker_coord::postgres::tokio_postgres::{NoTls, connect};

/// A database; dropped with this.
pub(crate) struct Database {
    admin: String,
    name: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let admin = env::var("ESKER_TEST_POSTGRES")
            .expect("ESKER_TEST_POSTGRES must name a Postgres server: run ./test, which starts one");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker_program_{}_{number}", process::id());
        let database = Self { admin, name };
        database.administer(&format!("CREATE DATABASE {}", database.name));
        database
    }

    pub(crate) fn url(&self) -> String {
        let (server, _) = self.admin.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }

    /// Has all calls that need a lock wait, as if the server were slow; `work` is done once one waits, and the calls go on
    /// when it has ended.
    pub(crate) fn while_a_call_for_a_lock_waits(&self, work: impl FnOnce()) {
        const WAITING: &str =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'esker.locks'::regclass";
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (client, connection) = connect(&self.url(), NoTls).await.unwrap();
            tokio::spawn(connection);
            client
                .batch_execute("BEGIN; LOCK TABLE esker.locks")
                .await
                .unwrap();
            while client.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
            work();
            client.batch_execute("COMMIT").await.unwrap();
        });
    }

    fn administer(&self, statement: &str) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (client, connection) = connect(&self.admin, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(statement).await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.administer(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
