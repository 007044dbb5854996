//! TLS to the server: `sslmode` as libpq means it.

use std::fs;

use esker_coord_postgres::{Error, Options, PostgresEngine};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::support::{Database, Server};

/// An authority, and a certificate of it for `localhost` with its key.
fn certificates() -> (String, String, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap().pem();
    (root, server, key.serialize_pem())
}

async fn open(url: &str, parameters: &str) -> Result<(), Error> {
    let opened = PostgresEngine::open(&format!("{url}?{parameters}"), Options::default()).await;
    opened.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_02_sslmode_asks_as_much_of_the_server_as_libpq_does() {
    let (root, certificate, key) = certificates();
    let (stranger, _, _) = certificates();
    let server = Server::start_with_tls(&certificate, &key);
    let database = Database::on(&server.admin());
    let folder = tempfile::tempdir().unwrap();
    let (known, unknown) = (folder.path().join("known.pem"), folder.path().join("unknown.pem"));
    fs::write(&known, root).unwrap();
    fs::write(&unknown, stranger).unwrap();
    let (known, unknown) = (known.display(), unknown.display());
    let (by_number, by_name) = (database.url(), database.url().replace("127.0.0.1", "localhost"));

    for (url, parameters, accepted) in [
        (&by_number, "sslmode=prefer".to_owned(), true),
        (&by_number, "sslmode=require".to_owned(), true),
        (&by_number, format!("sslmode=require&sslrootcert={known}"), true),
        (
            &by_number,
            format!("sslmode=require&sslrootcert={unknown}"),
            false,
        ),
        (&by_number, format!("sslmode=verify-ca&sslrootcert={known}"), true),
        (
            &by_number,
            format!("sslmode=verify-ca&sslrootcert={unknown}"),
            false,
        ),
        (&by_number, "sslmode=verify-ca".to_owned(), false),
        (
            &by_number,
            format!("sslmode=verify-full&sslrootcert={known}"),
            false,
        ),
        (&by_name, format!("sslmode=verify-full&sslrootcert={known}"), true),
        (
            &by_name,
            format!("sslmode=verify-full&sslrootcert={unknown}"),
            false,
        ),
    ] {
        let opened = open(url, &parameters).await;
        assert_eq!(opened.is_ok(), accepted, "{url}?{parameters}: {opened:?}");
    }
    let client = database.client().await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl \
        AND application_name = 'esker' AND datname = current_database()";
    let store = PostgresEngine::open(&format!("{by_number}?sslmode=prefer"), Options::default())
        .await
        .unwrap();
    assert!(client.query_one(encrypted, &[]).await.unwrap().get::<_, i64>(0) >= 2);
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_02_a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let database = Database::new();
    assert!(open(&database.url(), "sslmode=prefer").await.is_ok());
    assert!(open(&database.url(), "sslmode=disable").await.is_ok());
    assert!(matches!(
        open(&database.url(), "sslmode=require").await,
        Err(Error::Connect(_))
    ));
    let missing = open(&database.url(), "sslmode=verify-full&sslrootcert=/nowhere.pem")
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("/nowhere.pem"), "{missing}");
}
