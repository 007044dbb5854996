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
