//! An outbox to a web hook: what commits is delivered, as often as it takes, also when the receiver is down.
//!
//! ```text
//! cargo run -p esker-coord --example webhook
//! cargo run -p esker-coord --features postgres --example webhook -- postgres://app@localhost/app
//! ```

use std::{env, error::Error, net::SocketAddr};

use esker_coord::{CancellationToken, Job, JobError, WorkOptions, open};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite:{}", folder.path().join("app.db").display());
    let store = open(&env::args().nth(1).unwrap_or(file)).await?;

    // Whatever else the transaction writes, the delivery commits with it.
    let mut signup = store.begin().await?;
    signup
        .outbox_enqueue("example-hook", r#"{"signed_up":"ada"}"#)
        .await?;
    signup.commit().await?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let hook = listener.local_addr()?;
    let stop = CancellationToken::new();
    let receiver = tokio::spawn(receive(listener, stop.clone()));

    let delivery = async move |job: &Job| {
        let answer = post(hook, job).await?;
        println!("attempt {}: the hook answers {answer}", job.attempts);
        match answer {
            200..300 => Ok(()),
            // What it refuses now it would refuse again.
            400..500 => Err(JobError::fail(format!("the hook refused it with {answer}"))),
            _ => Err(JobError::retry_after(format!("the hook failed with {answer}"), 1)),
        }
    };
    let outbox = store.outbox("example-hook")?;
    let report = outbox.run(WorkOptions::default(), delivery, stop).await?;
    println!("delivered {}, tried again {}", report.acked, report.retried);
    assert_eq!((report.acked, report.retried), (1, 1));
    receiver.await??;
    store.close().await;
    Ok(())
}

/// Posts the job's payload, with the job's id as the key by which the receiver knows a repeated delivery; gives the
/// status.
async fn post(hook: SocketAddr, job: &Job) -> std::io::Result<u16> {
    let body = job.payload.as_bytes();
    let head = format!(
        "POST /hook HTTP/1.1\r\nhost: {hook}\r\ncontent-type: application/json\r\nidempotency-key: {}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        job.id,
        body.len()
    );
    let mut socket = TcpStream::connect(hook).await?;
    socket.write_all(&[head.as_bytes(), body].concat()).await?;
    let mut answer = String::new();
    socket.take(64 << 10).read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| std::io::Error::other("the answer has no status"))
}

/// A receiver that is down at first. When it has taken something it asks the worker to stop.
async fn receive(listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
    for status in ["503 Service Unavailable", "204 No Content"] {
        let (mut socket, _) = listener.accept().await?;
        let mut request = vec![0; 4096];
        let mut length = 0;
        // Its body ends with the closing brace.
        while !request[..length].ends_with(b"}") {
            length += socket.read(&mut request[length..]).await?;
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        socket.write_all(answer.as_bytes()).await?;
    }
    stop.cancel();
    Ok(())
}
