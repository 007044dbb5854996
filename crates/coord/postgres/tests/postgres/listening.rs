//! The listening connection: what it hears.

use crate::{support::Database, wakes::only_wakes};

#[tokio::test(flavor = "multi_thread")]
async fn cw_01_a_notification_is_heard_whatever_its_payload() {
    let database = Database::new();
    let stores = [
        database.open_with(only_wakes()).await,
        database.open_with(only_wakes()).await,
    ];
    // The numbers by which the stores know what they sent themselves.
    let numbers = ["1", "2"];
    let number = "SELECT last_value FROM esker.store_number";
    let last = database
        .client()
        .await
        .query_one(number, &[])
        .await
        .unwrap()
        .get::<_, i64>(0);
    assert_eq!(last.to_string(), numbers[1]);
    for hears in &stores {
        let mut news = hears.listen("news").await.unwrap();
        let mut end = hears.listen("end").await.unwrap();
        for sends in &stores {
            for payload in numbers {
                sends.notify("news", payload).await.unwrap();
                sends.notify("end", "end").await.unwrap();
                assert!(end.recv().await.is_some());
                assert!(news.try_recv().unwrap().is_some(), "{payload} was not heard");
            }
        }
    }
}
