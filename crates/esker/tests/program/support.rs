//! Running the program: commands to their end, a relay until it is told to stop, a client on a socket.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio},
};

use esker_coord::{Store, sqlite::SqliteEngine};
use esker_nostr::{Event, Keys};
use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

/// A folder of a test's own, in which the program runs.
pub(crate) struct Folder(tempfile::TempDir);

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The program in this folder, with none of the caller's settings.
    pub(crate) fn esker<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ESKER_"))
        {
            command.env_remove(name);
        }
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        self.esker(args).output().unwrap().into()
    }

    /// Runs the program, which must succeed; what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        done.stdout
    }

    /// Runs the program with `--json`, which must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).unwrap()
    }

    /// Runs the program with this on its standard input.
    pub(crate) fn pipe(&self, args: &[&str], input: &[u8]) -> Done {
        let mut command = self.esker(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that refuses its arguments does not read.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().unwrap().into()
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The store of the folder, as another program has it.
fn store(folder: &Folder) -> Store {
    Store::new(
        SqliteEngine::open(&folder.path("esker.db"), esker_coord::sqlite::Settings::default()).unwrap(),
    )
}

/// Runs what another program does with the store, and closes it.
pub(crate) fn with_store<T>(folder: &Folder, work: impl AsyncFnOnce(&Store) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = store(folder);
        let value = work(&store).await;
        store.close().await;
        value
    })
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Reads lines of a stream until one contains `text`.
pub(crate) fn wait_for_line(stream: &mut impl std::io::BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "no line with {text:?}");
    }
}

/// A command that runs until it is told to stop; killed when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(folder: &Folder, args: &[&str]) -> Self {
        let mut command = folder.esker(args);
        Self(
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(&self.0, Signal::INT);
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running relay; killed when it is dropped.
pub(crate) struct Relay {
    pub(crate) process: Child,
    pub(crate) url: String,
    pub(crate) stderr: BufReader<ChildStderr>,
}

impl Relay {
    /// Starts the relay in the folder, on a free port.
    pub(crate) fn start(folder: &Folder, args: &[&str]) -> Self {
        let mut command = folder.esker([&["serve", "--listen", "127.0.0.1:0"], args].concat());
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let Some(url) = line.trim_end().strip_prefix("listening on ") else {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            panic!("the relay did not start: {line}{log}");
        };
        Self {
            url: url.to_owned(),
            process,
            stderr,
        }
    }

    /// Asks it to stop and waits for that.
    pub(crate) fn stop(mut self) -> ExitStatus {
        signal(&self.process, Signal::TERM);
        self.process.wait().unwrap()
    }

    /// Kills it at once, with no chance to do anything.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("ws://").unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection to a relay.
pub(crate) struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    pub(crate) async fn connect(relay: &Relay) -> Self {
        Self(tokio_tungstenite::connect_async(&relay.url).await.unwrap().0)
    }

    /// Sends without waiting for the socket to take it all.
    pub(crate) async fn send(&mut self, message: &serde_json::Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Sends an event; whether the socket still took it.
    pub(crate) async fn publish(&mut self, event: &Event) -> bool {
        let json = std::str::from_utf8(event.json()).unwrap();
        self.0
            .send(Message::text(format!("[\"EVENT\",{json}]")))
            .await
            .is_ok()
    }

    /// The next text message, or `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<serde_json::Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Reads to the end of the connection, answering the relay's Close; the text messages, and the close code if
    /// there was one.
    pub(crate) async fn rest(&mut self) -> (Vec<serde_json::Value>, Option<u16>) {
        let (mut messages, mut code) = (Vec::new(), None);
        while let Some(Ok(message)) = self.0.next().await {
            match message {
                Message::Text(text) => messages.push(serde_json::from_str(&text).unwrap()),
                Message::Close(frame) => code = frame.map(|frame| frame.code.into()),
                _ => {}
            }
        }
        (messages, code)
    }

    /// Both halves, to write and read at once.
    pub(crate) fn stream(self) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
        self.0
    }
}

/// A note by a test's author.
pub(crate) fn note(author: u64, created_at: i64, content: &str) -> Event {
    Keys::from_seed(author).sign(1, created_at, &[vec!["t", "esker"]], content)
}

/// Events as JSON lines.
pub(crate) fn lines<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<u8> {
    events
        .into_iter()
        .flat_map(|event| [event.json().as_ref(), b"\n"].concat())
        .collect()
}

/// Text of a file of this test, found from wherever the test runs.
pub(crate) fn tests_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}
