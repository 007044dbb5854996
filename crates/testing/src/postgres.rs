//! Databases of a test's own, on the server that `./test` started or on another.

use std::{
    env, process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use tokio_postgres::{Client, Error, NoTls};

/// A database; dropped with this.
pub struct Database {
    admin: String,
    name: String,
}

impl Database {
    /// On the server of the variable `ESKER_TEST_POSTGRES`.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[expect(clippy::new_without_default, reason = "it makes a database")]
    pub fn new() -> Self {
        let admin = env::var("ESKER_TEST_POSTGRES")
            .expect("ESKER_TEST_POSTGRES must name a Postgres server: run ./test, which starts one");
        Self::on(&admin)
    }

    /// On the server of this URL, whose user may make databases.
    pub fn on(admin: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let database = Self {
            admin: admin.to_owned(),
            name: format!("esker_test_{}_{number}", process::id()),
        };
        database.administer("CREATE DATABASE", "").unwrap();
        database
    }

    /// Its name, which is no other's on the server at this time.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let (server, _) = self.admin.rsplit_once('/').expect("the URL names a database");
        format!("{server}/{}", self.name)
    }

    /// A connection to it, of the runtime that asks.
    pub async fn client(&self) -> Client {
        connect(&self.url()).await.unwrap()
    }

    /// On a thread of its own: the runtime of the test, if it has one, cannot be waited for from here.
    fn administer(&self, what: &str, how: &str) -> Result<(), Error> {
        let statement = format!("{what} {}{how}", self.name);
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .unwrap()
                .block_on(async { connect(&self.admin).await?.batch_execute(&statement).await })
        };
        thread::scope(|scope| scope.spawn(work).join()).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A server that the test stopped has it no more.
        let _stays = self.administer("DROP DATABASE", " WITH (FORCE)");
    }
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
