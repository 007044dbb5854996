//! A wire to a Postgres server that can be cut, stalled and mended, and that can lose an answer.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// A port of this host that leads to a server. When it is dropped, the wire is cut.
pub struct Wire {
    url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Its connections; `None` while the wire is cut.
    connections: Mutex<Option<Vec<Arc<Connection>>>>,
    /// New connections are stalled.
    stalling: AtomicBool,
    /// Connections that were stalled from the start.
    stalled: AtomicUsize,
    /// The next commit loses its answer.
    losing: AtomicBool,
}

impl Wire {
    /// A whole wire to the server of this URL, which is `postgres://user@host:port/database`.
    pub fn to(url: &str) -> Self {
        let (user, rest) = url.rsplit_once('@').expect("a URL with a user");
        let (server, database) = rest.split_once('/').expect("a URL with a database");
        let server = server.to_socket_addrs().unwrap().next().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Self {
            url: format!("{user}@127.0.0.1:{port}/{database}"),
            state: Arc::default(),
        };
        wire.mend();
        let state = wire.state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                state.connect(client.unwrap(), server);
            }
        });
        wire
    }

    /// The URL of the same database by way of the wire.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends each connection, and at once each that is tried, until the wire is mended.
    pub fn cut(&self) {
        let connections = self.state.connections.lock().unwrap().take();
        connections
            .into_iter()
            .flatten()
            .for_each(|connection| connection.end());
    }

    /// Lets each connection die quietly, those that there are and those that are made until the wire is mended: what is
    /// sent is taken and goes nowhere. They stay so when the wire is mended.
    pub fn stall(&self) {
        let connections = self.state.connections.lock().unwrap();
        self.state.stalling.store(true, Ordering::SeqCst);
        for connection in connections.iter().flatten() {
            connection.stalled.store(true, Ordering::SeqCst);
        }
    }

    /// Connections that were made while the wire was stalled.
    pub fn made_while_stalled(&self) -> usize {
        self.state.stalled.load(Ordering::SeqCst)
    }

    /// Lets new connections through again.
    pub fn mend(&self) {
        self.state.stalling.store(false, Ordering::SeqCst);
        self.state.connections.lock().unwrap().get_or_insert_default();
    }

    /// The next commit, or append that commits by itself, is done, and its answer reaches nobody.
    pub fn lose_next_answer(&self) {
        self.state.losing.store(true, Ordering::SeqCst);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
    }
}

impl State {
    fn connect(self: &Arc<Self>, client: TcpStream, server: SocketAddr) {
        let mut connections = self.connections.lock().unwrap();
        let Some(open) = &mut *connections else { return };
        let Ok(server) = TcpStream::connect(server) else {
            return;
        };
        for end in [&client, &server] {
            end.set_nodelay(true).unwrap();
        }
        let stalled = self.stalling.load(Ordering::SeqCst);
        self.stalled.fetch_add(usize::from(stalled), Ordering::SeqCst);
        let connection = Arc::new(Connection {
            client,
            server,
            losing: AtomicBool::new(false),
            stalled: AtomicBool::new(stalled),
        });
        open.push(connection.clone());
        let (wire, asking, answering) = (self.clone(), connection.clone(), connection);
        thread::spawn(move || asking.ask(&wire.losing));
        thread::spawn(move || answering.answer());
    }
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// What the server answers goes nowhere.
    losing: AtomicBool,
    /// What either side sends goes nowhere.
    stalled: AtomicBool,
}

impl Connection {
    /// Carries what the client sends, until one side ends.
    fn ask(&self, lose: &AtomicBool) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = (&self.client).read(&mut buffer) {
            if self.stalled.load(Ordering::SeqCst) {
                continue;
            }
            let message = &buffer[..n];
            let commits = contains(message, b"COMMIT") || contains(message, b".publish(");
            if commits && lose.swap(false, Ordering::SeqCst) {
                self.losing.store(true, Ordering::SeqCst);
            }
            if (&self.server).write_all(message).is_err() {
                break;
            }
        }
        self.end();
    }

    /// Carries what the server answers, until one side ends or the answer that is to be lost has come.
    fn answer(&self) {
        const READY_AND_IDLE: &[u8] = b"Z\0\0\0\x05I";
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = (&self.server).read(&mut buffer) {
            if self.stalled.load(Ordering::SeqCst) {
                continue;
            }
            let answer = &buffer[..n];
            if self.losing.load(Ordering::SeqCst) {
                if answer.ends_with(READY_AND_IDLE) {
                    break;
                }
            } else if (&self.client).write_all(answer).is_err() {
                break;
            }
        }
        self.end();
    }

    fn end(&self) {
        for end in [&self.client, &self.server] {
            // It may have ended by itself.
            let _ended = end.shutdown(Shutdown::Both);
        }
    }
}

fn contains(message: &[u8], text: &[u8]) -> bool {
    message.windows(text.len()).any(|window| window == text)
}
