//! Databases, servers and poolers for the tests, each a test's own.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use esker_coord_api::Store;
use esker_coord_postgres::{Options, PostgresEngine};
use esker_testing::postgres;
use tokio::net::TcpStream;
use tokio_postgres::Client;

/// A database of its own, and the stores on it.
pub(crate) struct Database(postgres::Database);

impl Database {
    pub(crate) fn new() -> Self {
        Self(postgres::Database::new())
    }

    pub(crate) fn on(admin: &str) -> Self {
        Self(postgres::Database::on(admin))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    pub(crate) async fn client(&self) -> Client {
        self.0.client().await
    }

    /// Ends every session on the database but the one that asks.
    pub(crate) async fn cut_connections(&self) {
        let client = self.client().await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        client.batch_execute(cut).await.unwrap();
    }

    pub(crate) async fn open(&self) -> Store {
        self.open_with(Options::default()).await
    }

    pub(crate) async fn open_with(&self, options: Options) -> Store {
        Store::new(PostgresEngine::open(&self.url(), options).await.unwrap())
    }

    /// A store that has done all that it does unasked: for who counts statements, or what they cost.
    pub(crate) async fn open_settled(&self, options: Options) -> Store {
        let store = self.open_with(options).await;
        while !engine(&store).stats().indexes_ready {
            tokio::task::yield_now().await;
        }
        store
    }
}

/// The engine under a store.
pub(crate) fn engine(store: &Store) -> &PostgresEngine {
    store.engine().expect("the store is on Postgres")
}

/// Pages of tables and indexes that a statement needed.
pub(crate) async fn pages(client: &Client, sql: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {sql}");
    client.batch_execute("BEGIN").await.unwrap();
    let plan = client.query(&explain, &[]).await.unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    let mut lines = plan.iter().map(|row| row.get::<_, &str>(0));
    let buffers = lines.find(|line| line.contains("Buffers: shared")).unwrap();
    let numbers = buffers.split(' ').filter_map(|word| {
        let (kind, pages) = word.split_once('=')?;
        matches!(kind, "hit" | "read").then(|| pages.parse::<i64>().unwrap())
    });
    numbers.sum()
}

/// A server that the test starts and stops; it flushes, because crashes are what it is for.
pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    settings: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::make(String::new(), &[])
    }

    /// One that speaks TLS, with this certificate and its key.
    pub(crate) fn start_with_tls(certificate: &str, key: &str) -> Self {
        let settings = "-c ssl=on -c ssl_cert_file=../server.pem -c ssl_key_file=../server.key";
        Self::make(
            settings.to_owned(),
            &[("server.pem", certificate), ("server.key", key)],
        )
    }

    fn make(settings: String, files: &[(&str, &str)]) -> Self {
        let folder = folder("server");
        for (name, content) in files {
            // The server reads a key only where nobody else can.
            let mut write = ordinary("sh")
                .args(["-c", "umask 077; cat > \"$0\""])
                .arg(folder.join(name))
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            write.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
            assert!(write.wait().unwrap().success());
        }
        let server = Self {
            port: free_port(),
            folder,
            settings,
        };
        let data = server.data();
        run(ordinary("initdb")
            .args("-U postgres -A trust -E UTF8 --locale=C -N -D".split(' '))
            .arg(&data));
        server.start_again();
        server
    }

    pub(crate) fn start_again(&self) {
        let settings = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1 -c max_connections=100 -c shared_buffers=32MB {}",
            self.port,
            self.folder.display(),
            self.settings,
        );
        let log = self.folder.join("log");
        run(ordinary("pg_ctl")
            .args(["start", "-w", "-s", "-o", &settings, "-D"])
            .arg(self.data())
            .arg("-l")
            .arg(log));
    }

    /// `fast` ends sessions and shuts down; `immediate` is a crash.
    pub(crate) fn stop(&self, mode: &str) {
        run(ordinary("pg_ctl")
            .args(["stop", "-w", "-s", "-m", mode, "-D"])
            .arg(self.data()));
    }

    pub(crate) fn admin(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop = ordinary("pg_ctl")
            .args(["stop", "-s", "-m", "immediate", "-D"])
            .arg(self.data())
            .output();
        drop(stop);
        let _stays = fs::remove_dir_all(&self.folder);
    }
}

/// A pooler in transaction mode before a database.
pub(crate) struct Pooler {
    folder: PathBuf,
    process: process::Child,
    port: u16,
    name: String,
}

impl Pooler {
    pub(crate) async fn start(database: &Database) -> Self {
        let folder = folder("pooler");
        let config: tokio_postgres::Config = database.url().parse().unwrap();
        let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
            panic!("the test server listens on TCP");
        };
        let (server, port) = (config.get_ports()[0], free_port());
        let settings = format!(
            "[databases]\n{name} = host={host} port={server} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = transaction\nunix_socket_dir =\n\
             default_pool_size = 3\nmax_client_conn = 100\n",
            name = database.name(),
        );
        let file = folder.join("ini");
        fs::write(&file, settings).unwrap();
        let process = ordinary("pgbouncer")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It listens a moment after it was started.
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
        Self {
            folder,
            process,
            port,
            name: database.name().to_owned(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.port, self.name)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _ended = self.process.wait();
        let _stays = fs::remove_dir_all(&self.folder);
    }
}

/// A program that refuses to run as root, run as an ordinary user.
fn ordinary(program: &str) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    let uid = Command::new("id").arg("-u").output().unwrap();
    uid.stdout.trim_ascii() == b"0"
}

/// A folder that an ordinary user may write to.
fn folder(what: &str) -> PathBuf {
    let made = ordinary("mktemp")
        .args(["-d", &format!("/tmp/esker-test-{what}.XXXXXX")])
        .output()
        .unwrap();
    let path = String::from_utf8(made.stdout).unwrap();
    Path::new(path.trim_end()).to_owned()
}

fn run(command: &mut Command) {
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.expect("the server's programs are in PATH: run ./test, which sees to it");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
