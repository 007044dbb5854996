//! A relay on a free port of loopback, and clients for it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use esker_events_api::{Clock, EventStore, Options};
use esker_events_memory::MemoryStore;
use esker_nostr::{Event, Keys};
use esker_relay::{Config, Counters, Info, Limits, Server};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, protocol::CloseFrame},
};

/// The time at which all tests play.
pub(crate) const NOW: i64 = 1_700_000_000;

/// Nothing here depends on it; a test that would hang fails instead.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("this should have come long ago")
}

/// Waits until a figure is as it should be; for what other tasks do.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    patiently(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

pub(crate) struct TestRelay {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) counters: Arc<Counters>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) running: JoinHandle<()>,
}

impl TestRelay {
    pub(crate) fn start() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self::with_store(limits, Arc::new(memory()))
    }

    pub(crate) fn with_store(limits: Limits, store: Arc<dyn EventStore>) -> Self {
        let config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            limits,
            info: Info {
                name: "Test relay".into(),
                ..Info::default()
            },
            clock: Clock::manual(NOW),
        };
        let server = Server::bind(config, Arc::clone(&store)).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (address, counters) = (server.local_addr(), server.counters());
        let running = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self {
            address,
            store,
            counters,
            stop: Some(stop),
            running,
        }
    }

    /// Begins the shutdown.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn connect(&self) -> Client {
        let (socket, _) = patiently(connect_async(format!("ws://{}/", self.address)))
            .await
            .unwrap();
        Client(socket)
    }

    pub(crate) async fn store(&self, events: &[Event]) {
        let events = events.iter().cloned().map(Arc::new).collect();
        self.store.insert_batch(events).await;
    }
}

pub(crate) fn memory() -> MemoryStore {
    MemoryStore::open(Options {
        clock: Clock::manual(NOW),
        ..Options::default()
    })
}

pub(crate) fn note(author: u64, ago: i64, content: &str) -> Event {
    Keys::from_seed(author).sign(1, NOW - ago, &[] as &[Vec<&str>], content)
}

pub(crate) fn text(event: &Event) -> String {
    String::from_utf8(event.json().to_vec()).unwrap()
}

pub(crate) fn value(event: &Event) -> Value {
    serde_json::from_slice(event.json()).unwrap()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn id(event: &Event) -> String {
    value(event)["id"].as_str().unwrap().to_owned()
}

/// A client that speaks the protocol, over tungstenite.
pub(crate) struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    pub(crate) async fn say(&mut self, message: impl Into<String>) {
        patiently(self.0.send(Message::text(message.into())))
            .await
            .unwrap();
    }

    pub(crate) async fn send(&mut self, message: Message) {
        patiently(self.0.send(message)).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Message {
        patiently(self.0.next())
            .await
            .expect("the connection is open")
            .unwrap()
    }

    /// The next message of the protocol.
    pub(crate) async fn hear(&mut self) -> Value {
        patiently(async {
            loop {
                match self.receive().await {
                    Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                    Message::Ping(_) | Message::Pong(_) => {}
                    other => panic!("expected a text message, got {other:?}"),
                }
            }
        })
        .await
    }

    pub(crate) async fn ask(&mut self, message: impl Into<String>) -> Value {
        self.say(message).await;
        self.hear().await
    }

    /// Publishes an event and gives the OK's verdict and text.
    pub(crate) async fn publish(&mut self, event: &Event) -> (bool, String) {
        let ok = self.ask(format!("[\"EVENT\",{}]", text(event))).await;
        assert_eq!((&ok[0], &ok[1]), (&json!("OK"), &json!(id(event))));
        (ok[2].as_bool().unwrap(), ok[3].as_str().unwrap().to_owned())
    }

    /// Everything up to the EOSE of a subscription: ids, in order.
    pub(crate) async fn stored(&mut self, subscription: &str) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let message = self.hear().await;
            assert_eq!(message[1], subscription, "{message}");
            match message[0].as_str().unwrap() {
                "EVENT" => ids.push(message[2]["id"].as_str().unwrap().to_owned()),
                "EOSE" => return ids,
                _ => panic!("unexpected: {message}"),
            }
        }
    }

    pub(crate) async fn req(&mut self, subscription: &str, filters: &str) -> Vec<String> {
        self.say(format!("[\"REQ\",\"{subscription}\",{filters}]")).await;
        self.stored(subscription).await
    }

    /// The next message must be the Close frame.
    pub(crate) async fn closed(&mut self) -> CloseFrame {
        loop {
            match self.receive().await {
                Message::Close(frame) => return frame.expect("a close code"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("expected a close, got {other:?}"),
            }
        }
    }

    /// Shows that the connection lives: the answer to a question of its own comes next.
    pub(crate) async fn lives(&mut self) {
        let answer = self.ask("[\"REQ\",\"alive?\",{\"ids\":[]}]").await;
        assert_eq!(answer, json!(["EOSE", "alive?"]));
        self.say("[\"CLOSE\",\"alive?\"]").await;
    }
}

/// A client of raw bytes.
pub(crate) struct Raw(pub(crate) TcpStream);

/// A frame from the relay: its first byte and its payload.
pub(crate) type RawFrame = (u8, Vec<u8>);

impl Raw {
    pub(crate) async fn open(relay: &TestRelay) -> Self {
        Self(patiently(TcpStream::connect(relay.address)).await.unwrap())
    }

    /// A WebSocket; the receive window is small, so that little is under way when it does not read.
    pub(crate) async fn upgrade(relay: &TestRelay) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut raw = Self(patiently(socket.connect(relay.address)).await.unwrap());
        let response = raw
            .request(
                "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            )
            .await;
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        raw
    }

    /// Sends a request and reads the head of the response.
    pub(crate) async fn request(&mut self, request: &str) -> String {
        self.send(request.as_bytes()).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match patiently(self.0.read_u8()).await {
                Ok(byte) => head.push(byte),
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
            }
        }
        String::from_utf8(head).unwrap()
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        patiently(self.0.write_all(bytes)).await.unwrap();
    }

    /// Sends a masked frame.
    pub(crate) async fn frame(&mut self, first: u8, payload: &[u8]) {
        self.send(&masked(first, payload)).await;
    }

    /// The next frame; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<RawFrame> {
        let first = patiently(self.0.read_u8()).await.ok()?;
        let len = match patiently(self.0.read_u8()).await.unwrap() {
            126 => usize::from(patiently(self.0.read_u16()).await.unwrap()),
            127 => usize::try_from(patiently(self.0.read_u64()).await.unwrap()).unwrap(),
            short => usize::from(short),
        };
        let mut payload = vec![0; len];
        patiently(self.0.read_exact(&mut payload)).await.ok()?;
        Some((first, payload))
    }

    /// The next frame must be a text message.
    pub(crate) async fn hear(&mut self) -> Value {
        let (first, payload) = self.next().await.expect("the connection is open");
        assert_eq!(first, 0x81, "{payload:?}");
        serde_json::from_slice(&payload).unwrap()
    }

    /// The next frame must be a Close; gives its code and reason. After it the stream ends.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        let (first, payload) = self.next().await.expect("a close frame");
        assert_eq!(first, 0x88, "{}", String::from_utf8_lossy(&payload));
        assert_eq!(self.next().await, None);
        let (code, reason) = payload.split_first_chunk().expect("a close code");
        (
            u16::from_be_bytes(*code),
            String::from_utf8(reason.to_vec()).unwrap(),
        )
    }
}

pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | u8::try_from(len).unwrap()),
        len @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    bytes
}
