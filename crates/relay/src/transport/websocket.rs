//! WebSocket over TCP: the async shell around the frame and message code.

mod deflate;
mod frame;
pub(crate) mod handshake;
mod message;

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use esker_live::Frame;
use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::Instant,
};

pub(crate) use self::deflate::DeflatePool;
use self::{
    frame::{CONTROL_MAX, HEADER_MAX, Opcode, write_header},
    message::Decoder,
};
use super::{Incoming, Sink, Source, SourceError};

/// How much is read at once. The buffer exists while there is something in it.
const READ_CHUNK: usize = 16 << 10;

/// A write is begun when so much has gathered; one larger frame goes alone.
const WRITE_CHUNK: usize = 128 << 10;

/// What a client did that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Violation {
    /// A broken rule of RFC 6455 or 7692.
    Protocol(&'static str),
    /// A payload that is not what it says it is.
    Payload(&'static str),
    /// A message longer than the limit, as it is sent or inflated.
    TooBig,
}

impl From<Violation> for SourceError {
    fn from(violation: Violation) -> Self {
        let (code, reason) = match violation {
            Violation::Protocol(reason) => (1002, reason),
            Violation::Payload(reason) => (1007, reason),
            Violation::TooBig => (1009, "the message is too big"),
        };
        Self::Violation { code, reason }
    }
}

/// What a WebSocket connection is told when it begins.
pub(crate) struct Settings {
    /// Bytes a message may have, as it is sent and inflated.
    pub(crate) message_max: usize,
    /// The states for permessage-deflate, if it was agreed on.
    pub(crate) deflate: Option<Arc<DeflatePool>>,
    /// Messages of at least so many bytes are deflated.
    pub(crate) deflate_from: usize,
    /// How long a peer may take nothing while data waits for it.
    pub(crate) stall: Duration,
}

/// Makes the two directions of an upgraded connection; `already` was read along with the upgrade request.
pub(crate) fn split(
    stream: TcpStream,
    already: Bytes,
    settings: Settings,
) -> (WebSocketSource, WebSocketSink) {
    let (read, write) = stream.into_split();
    let source = WebSocketSource {
        stream: read,
        input: BytesMut::from(already),
        decoder: Decoder::new(settings.message_max, settings.deflate.clone()),
    };
    let sink = WebSocketSink {
        stream: write,
        out: Vec::new(),
        deflate: settings.deflate,
        deflate_from: settings.deflate_from,
        stall: settings.stall,
    };
    (source, sink)
}

/// The reading direction.
pub(crate) struct WebSocketSource {
    stream: OwnedReadHalf,
    input: BytesMut,
    decoder: Decoder,
}

impl Source for WebSocketSource {
    async fn next(&mut self) -> Result<Incoming, SourceError> {
        loop {
            if !self.input.is_empty()
                && let Some(incoming) = self.decoder.decode(&mut self.input)?
            {
                return Ok(incoming);
            }
            if self.input.is_empty() {
                // An idle connection has no read buffer.
                self.input = BytesMut::new();
            }
            self.stream.readable().await.map_err(|_| SourceError::Gone)?;
            // Grows with what has come, not with what a header announced.
            self.input.reserve(READ_CHUNK);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(SourceError::Gone),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(SourceError::Gone),
            }
        }
    }

    async fn exhaust(&mut self) {
        self.input = BytesMut::new();
        // Not an array: it would be part of every connection's task for all its life.
        let mut dropped = vec![0; 4096];
        while self.stream.readable().await.is_ok() {
            match self.stream.try_read(&mut dropped) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => break,
            }
        }
    }
}

/// The writing direction.
pub(crate) struct WebSocketSink {
    stream: OwnedWriteHalf,
    out: Vec<u8>,
    deflate: Option<Arc<DeflatePool>>,
    deflate_from: usize,
    stall: Duration,
}

impl Sink for WebSocketSink {
    async fn send(&mut self, frames: &mut Vec<Frame>) -> io::Result<()> {
        let bytes: usize = frames.iter().map(|frame| frame.len() + HEADER_MAX).sum();
        self.out.reserve(bytes.min(WRITE_CHUNK));
        for frame in frames.drain(..) {
            self.encode(&frame);
            if self.out.len() >= WRITE_CHUNK {
                self.flush().await?;
            }
        }
        self.flush().await?;
        // An idle connection has no write buffer.
        self.out = Vec::new();
        Ok(())
    }

    async fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        let reason = &reason[..reason.floor_char_boundary(CONTROL_MAX - 2)];
        self.control(Opcode::Close, &[&code.to_be_bytes(), reason.as_bytes()].concat());
        self.flush().await?;
        self.stream.shutdown().await
    }
}

impl WebSocketSink {
    fn control(&mut self, opcode: Opcode, payload: &[u8]) {
        write_header(&mut self.out, opcode, false, payload.len());
        self.out.extend_from_slice(payload);
    }

    /// The one copy that a shared event body gets on its way to a socket.
    fn encode(&mut self, frame: &Frame) {
        match frame {
            Frame::Ping(payload) => return self.control(Opcode::Ping, payload),
            Frame::Pong(payload) => return self.control(Opcode::Pong, payload),
            Frame::Event { .. } | Frame::Text(_) => {}
        }
        let parts = frame.parts();
        let len = parts.iter().map(|part| part.len()).sum();
        let out = &mut self.out;
        if let Some(pool) = &self.deflate
            && len >= self.deflate_from
            && pool.deflate(&parts, |deflated| {
                let smaller = deflated.len() < len;
                if smaller {
                    write_header(out, Opcode::Text, true, deflated.len());
                    out.extend_from_slice(deflated);
                }
                smaller
            })
        {
            return;
        }
        write_header(out, Opcode::Text, false, len);
        for part in parts {
            out.extend_from_slice(part);
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let mut moved = Instant::now();
        while sent < self.out.len() {
            match self.stream.try_write(&self.out[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    sent += written;
                    moved = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::timeout_at(moved + self.stall, self.stream.writable())
                        .await
                        .map_err(|_| io::ErrorKind::TimedOut)??;
                }
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        Ok(())
    }
}
