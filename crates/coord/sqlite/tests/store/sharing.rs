//! Side effects beside the caller's own statements, and a file that others share.

use esker_coord_api::{Clock, Error, Outcome, Store};
use esker_coord_sqlite::{Database, Effects, Options, SCHEMA, Schema, SqliteEngine, SqliteTransaction};
use std::time::Duration;

use crate::support::queue;

const ORDERS: Schema = Schema {
    component: "orders",
    migrations: &["CREATE TABLE placed (n INTEGER PRIMARY KEY) STRICT"],
};

struct Shop {
    folder: tempfile::TempDir,
    store: SqliteEngine,
    face: Store,
}

fn shop() -> Shop {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let database = Database::open(&path, Options::default(), &[ORDERS, SCHEMA]).unwrap();
    let store = SqliteEngine::on(database, Clock::system(), Duration::from_secs(10));
    Shop {
        folder,
        face: Store::new(store.clone()),
        store,
    }
}

impl Shop {
    fn orders(&self) -> i64 {
        let conn =
            esker_coord_sqlite::rusqlite::Connection::open(self.folder.path().join("shop.db")).unwrap();
        conn.query_row("SELECT count(*) FROM placed", [], |row| row.get(0))
            .unwrap()
    }
}

fn place(effects: &mut Effects<'_, '_>, n: i64) -> Result<i64, Error> {
    let insert = "INSERT INTO placed VALUES (?1)";
    let tx = effects.transaction();
    tx.sql()
        .execute(insert, [n])
        .map_err(esker_coord_sqlite::Error::from)?;
    effects.enqueue("jobs", "ship")?;
    effects.outbox_enqueue("mail", "thanks")?;
    effects.save_offset("placed", "billing", n)?;
    effects.notify("placed")?;
    effects.publish("placed", n.to_string())
}

#[tokio::test]
async fn ct_02_a_closure_commits_the_callers_rows_and_its_side_effects_at_once() {
    let shop = shop();
    let mut heard = shop.face.listen("placed").await.unwrap();
    let before = shop.store.database().stats().commits;
    let offset = shop.store.write(|effects| place(effects, 7)).await.unwrap();
    assert_eq!(shop.store.database().stats().commits, before + 1);
    assert_eq!((offset, shop.orders()), (1, 1));
    assert!(heard.try_recv().unwrap().is_some());
    let shipped = queue(&shop.face).claim_one("worker").await.unwrap().unwrap();
    assert_eq!(shipped.job().payload.as_bytes(), b"ship");
    let mut mails = 0;
    let mail = shop.face.outbox("mail").unwrap();
    let sent = mail.run_once("worker", async |_| {
        mails += 1;
        Ok(())
    });
    assert!(sent.await.unwrap());
    assert_eq!(mails, 1);
    let stream = shop.face.stream("placed").unwrap();
    assert_eq!(stream.get_offset("billing").await.unwrap(), 7);
    assert_eq!(stream.read_since(0, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn ct_02_a_closure_that_fails_leaves_nothing() {
    let shop = shop();
    let mut heard = shop.face.listen("placed").await.unwrap();
    let failed: Result<(), Error> = shop
        .store
        .write(|effects| {
            place(effects, 7)?;
            Err(Error::Closed)
        })
        .await;
    assert!(matches!(failed, Err(Error::Closed)));
    let panicked: Result<(), Error> = shop
        .store
        .write(|effects| {
            place(effects, 7)?;
            panic!("inside")
        })
        .await;
    assert_eq!(panicked.unwrap_err().outcome(), Outcome::Aborted);
    assert_eq!(shop.orders(), 0);
    assert_eq!(heard.try_recv().unwrap(), None);
    assert!(queue(&shop.face).claim_one("worker").await.unwrap().is_none());
    // The offsets that were given are given again.
    assert_eq!(shop.store.write(|effects| place(effects, 7)).await.unwrap(), 1);
}

#[tokio::test]
async fn ct_02_a_held_transaction_runs_the_callers_statements() {
    let shop = shop();
    for commits in [false, true] {
        let mut transaction = shop.face.begin().await.unwrap();
        SqliteTransaction::of(&mut transaction)
            .unwrap()
            .run(|tx| {
                tx.sql().execute("INSERT INTO placed VALUES (1)", [])?;
                Ok::<_, esker_coord_sqlite::Error>(())
            })
            .await
            .unwrap();
        transaction.enqueue("jobs", "ship").await.unwrap();
        transaction.publish("placed", "1").await.unwrap();
        assert_eq!(shop.orders(), 0);
        if commits {
            transaction.commit().await.unwrap();
        } else {
            drop(transaction);
        }
    }
    assert_eq!(shop.orders(), 1);
    let events = shop
        .face
        .stream("placed")
        .unwrap()
        .read_since(0, 9)
        .await
        .unwrap();
    assert_eq!((events.len(), events[0].offset), (1, 1));
    assert!(queue(&shop.face).claim_one("worker").await.unwrap().is_some());
}

#[tokio::test]
async fn cx_07_a_closed_store_says_so() {
    let shop = shop();
    let mut heard = shop.face.listen("placed").await.unwrap();
    shop.face.close().await;
    assert_eq!(heard.recv().await, None);
    assert!(matches!(queue(&shop.face).enqueue("1").await, Err(Error::Closed)));
    assert!(matches!(
        queue(&shop.face).claim_one("w").await,
        Err(Error::Closed)
    ));
    assert!(matches!(shop.face.listen("placed").await, Err(Error::Closed)));
    assert!(matches!(shop.face.begin().await, Err(Error::Closed)));
}
