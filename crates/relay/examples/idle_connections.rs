//! Measures what an idle connection costs: opens many, each with deflate agreed on and one subscription that has
//! had its EOSE, and prints how much the relay's resident memory grew.
//!
//! `cargo run --release -p esker-relay --example idle_connections -- 10000`

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
};

use esker_events_api::Options;
use esker_events_memory::MemoryStore;
use esker_relay::{Config, Limits, Server};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [count] => measure(count.parse()?),
        [role, address, count] if role == "client" => client(address.parse()?, count.parse()?),
        _ => Err("usage: idle_connections COUNT".into()),
    }
}

/// The relay, in this process; its clients are in another, so that their memory is not counted.
#[tokio::main]
async fn measure(count: usize) -> Result<()> {
    let store = Arc::new(MemoryStore::open(Options::default()));
    let config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        limits: Limits {
            // So that no ping wakes them while they are measured.
            ping_interval_ms: 3_600_000,
            idle_timeout_ms: 7_200_000,
            ..Limits::default()
        },
        ..Config::default()
    };
    let server = Server::bind(config, store)?;
    let (address, counters) = (server.local_addr(), server.counters());
    tokio::spawn(server.run(std::future::pending()));
    // One of everything has been allocated once.
    run_client(address, 100, |_| Ok(())).await?;
    let before = resident_kib()?;
    run_client(address, count, move |kib| {
        let sessions = counters.sessions_open.get();
        let grown = kib.saturating_sub(before);
        #[allow(clippy::cast_precision_loss)]
        let each = grown as f64 / sessions as f64;
        println!(
            "{sessions} idle connections, {} subscriptions",
            counters.subscriptions_open.get()
        );
        println!("resident: {before} KiB before, {kib} KiB with them: {each:.2} KiB each");
        Ok(())
    })
    .await
}

/// Starts a client process, and looks at this one's memory when all its connections are idle.
async fn run_client(
    address: SocketAddr,
    count: usize,
    look: impl FnOnce(u64) -> Result<()> + Send + 'static,
) -> Result<()> {
    tokio::task::spawn_blocking(move || {
        let mut child = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
            .args(["client", &address.to_string(), &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        let ready = child.stdout.take().ok_or("the client has no output")?;
        BufReader::new(ready)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        if line.trim() != "ready" {
            return Err("the client failed; is `ulimit -n` high enough?".into());
        }
        let looked = resident_kib().and_then(look).map_err(|error| error.to_string());
        drop(child.stdin.take());
        child.wait().map_err(|error| error.to_string())?;
        looked
    })
    .await?
    .map_err(String::into)
}

/// Opens the connections, says so, and keeps them until its input ends.
fn client(address: SocketAddr, count: usize) -> Result<()> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let mut socket = TcpStream::connect(address)?;
        write!(
            socket,
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        // Not masked in effect: the mask is zero.
        let message = format!("[\"REQ\",\"s\",{{\"authors\":[\"{number:064x}\"],\"kinds\":[1]}}]");
        let len = u8::try_from(message.len())?;
        let mut frame = vec![0x81, 0x80 | 0x7E, 0, len, 0, 0, 0, 0];
        if len < 126 {
            frame = vec![0x81, 0x80 | len, 0, 0, 0, 0];
        }
        frame.extend_from_slice(message.as_bytes());
        socket.write_all(&frame)?;
        let mut eose = [0; 14];
        socket.read_exact(&mut eose)?;
        if &eose[2..] != b"[\"EOSE\",\"s\"]" {
            return Err("no EOSE".into());
        }
        connections.push(socket);
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}
