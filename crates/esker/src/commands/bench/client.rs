//! A WebSocket client that costs next to nothing, as it shares the machine with what it measures: plain `ws://`,
//! no compression, a mask of zero, frames read in place.

use anyhow::{Context as _, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// One connection.
pub(super) struct Socket {
    stream: TcpStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Where the next frame begins in `incoming`.
    read: usize,
    /// The parts so far of a message in several frames.
    partial: Vec<u8>,
}

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
/// One read at most, and the bound of a message is what a relay may send at all.
const READ: usize = 1 << 16;
const MESSAGE: usize = 64 << 20;

impl Socket {
    /// Connects to a `ws://host:port/path` URL.
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let rest = url
            .strip_prefix("ws://")
            .with_context(|| format!("{url}: only ws:// relays are measured"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = if host.contains(':') {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let mut stream = TcpStream::connect(&address)
            .await
            .with_context(|| format!("cannot connect to {url}"))?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut incoming = Vec::new();
        let end = loop {
            if let Some(end) = incoming.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            ensure!(
                incoming.len() < READ,
                "{url}: the answer to the handshake has no end"
            );
            ensure!(
                stream.read_buf(&mut incoming).await? > 0,
                "{url}: closed during the handshake"
            );
        };
        let status = String::from_utf8_lossy(&incoming[..end])
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        ensure!(status.split(' ').nth(1) == Some("101"), "{url}: {status}");
        Ok(Self {
            stream,
            outgoing: Vec::new(),
            incoming,
            read: end,
            partial: Vec::new(),
        })
    }

    /// Adds a text message to what [`Socket::flush`] sends.
    pub(super) fn queue(&mut self, parts: &[&[u8]]) {
        self.queue_frame(TEXT, parts);
    }

    fn queue_frame(&mut self, opcode: u8, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.outgoing.push(0x80 | opcode);
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short @ ..126), _) => self.outgoing.push(0x80 | short),
            (_, Ok(medium)) => {
                self.outgoing.push(0x80 | 0x7E);
                self.outgoing.extend(medium.to_be_bytes());
            }
            _ => {
                self.outgoing.push(0x80 | 0x7F);
                self.outgoing.extend((length as u64).to_be_bytes());
            }
        }
        self.outgoing.extend([0; 4]);
        for part in parts {
            self.outgoing.extend_from_slice(part);
        }
    }

    /// Sends what is queued.
    pub(super) async fn flush(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.outgoing).await?;
        self.outgoing.clear();
        Ok(())
    }

    /// Sends one text message.
    pub(super) async fn send(&mut self, parts: &[&[u8]]) -> anyhow::Result<()> {
        self.queue(parts);
        self.flush().await
    }

    /// The next text message. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> anyhow::Result<&[u8]> {
        loop {
            if let Some(found) = self.take()? {
                return Ok(match found {
                    Found::Whole(from, to) => &self.incoming[from..to],
                    Found::Parts => &self.partial,
                });
            }
            self.flush().await?;
            self.incoming.drain(..self.read);
            self.read = 0;
            self.incoming.reserve(READ);
            ensure!(
                self.stream.read_buf(&mut self.incoming).await? > 0,
                "the relay closed the connection"
            );
        }
    }

    /// A text message that has arrived already.
    pub(super) fn ready(&mut self) -> anyhow::Result<Option<&[u8]>> {
        Ok(match self.take()? {
            Some(Found::Whole(from, to)) => Some(&self.incoming[from..to]),
            Some(Found::Parts) => Some(&self.partial),
            None => None,
        })
    }

    /// Takes frames from what has arrived until a message is whole.
    fn take(&mut self) -> anyhow::Result<Option<Found>> {
        loop {
            let frame = &self.incoming[self.read..];
            let Some(&[first, second]) = frame.first_chunk() else {
                return Ok(None);
            };
            let (head, length) = match second & 0x7F {
                126 => match frame.get(2..4) {
                    Some(bytes) => (4, usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))),
                    None => return Ok(None),
                },
                127 => match frame.get(2..10).and_then(|bytes| bytes.try_into().ok()) {
                    Some(bytes) => (10, usize::try_from(u64::from_be_bytes(bytes))?),
                    None => return Ok(None),
                },
                length => (2, usize::from(length)),
            };
            ensure!(
                length <= MESSAGE && second & 0x80 == 0,
                "the relay sent a frame that no relay may send"
            );
            if frame.len() < head + length {
                return Ok(None);
            }
            let (from, to) = (self.read + head, self.read + head + length);
            self.read = to;
            let (last, opcode) = (first & 0x80 != 0, first & 0x0F);
            match opcode {
                TEXT if last => return Ok(Some(Found::Whole(from, to))),
                TEXT | 0 => {
                    if opcode == TEXT {
                        self.partial.clear();
                    }
                    self.partial.extend_from_slice(&self.incoming[from..to]);
                    ensure!(
                        self.partial.len() <= MESSAGE,
                        "the relay sent a message without an end"
                    );
                    if last {
                        return Ok(Some(Found::Parts));
                    }
                }
                PING => {
                    let payload = self.incoming[from..to].to_vec();
                    self.queue_frame(PONG, &[&payload]);
                }
                CLOSE => {
                    let reason = String::from_utf8_lossy(self.incoming.get(from + 2..to).unwrap_or_default());
                    bail!("the relay closed the connection: {reason}");
                }
                _ => {}
            }
        }
    }
}

enum Found {
    /// A message in one frame, where it arrived.
    Whole(usize, usize),
    /// A message put together in `partial`.
    Parts,
}

/// What a relay says, told from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// `["EVENT",…`
    Event,
    /// `["EOSE",…`
    Eose,
    /// `["OK",<id>,<accepted>,…`
    Ok {
        /// The event's id, hex.
        id: &'a [u8],
        /// Whether the relay has it.
        accepted: bool,
    },
    /// Anything else: NOTICE, CLOSED, AUTH.
    Other,
}

impl<'a> Reply<'a> {
    /// Looks at the first bytes only.
    pub(super) fn of(message: &'a [u8]) -> Self {
        let text = message.trim_ascii_start();
        if text.starts_with(b"[\"EVENT\"") {
            Self::Event
        } else if text.starts_with(b"[\"OK\"") {
            let Some(id) = after(&text[5..], b"\"").and_then(|rest| rest.get(..64)) else {
                return Self::Other;
            };
            let accepted = after(&text[5..], b"\"").and_then(|rest| rest.get(65..75.min(rest.len())));
            Self::Ok {
                id,
                accepted: accepted.is_some_and(|rest| rest.windows(4).any(|word| word == b"true")),
            }
        } else if text.starts_with(b"[\"EOSE\"") {
            Self::Eose
        } else {
            Self::Other
        }
    }
}

/// What follows the first occurrence of `mark`.
pub(super) fn after<'a>(text: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    text.windows(mark.len())
        .position(|window| window == mark)
        .map(|at| &text[at + mark.len()..])
}

/// The id of an event's JSON, as its first 16 digits: enough to tell events of a measurement apart. Inside a
/// string the quotes of the mark would be escaped, so it can only be the field.
pub(super) fn event_key(json: &[u8]) -> Option<u64> {
    key(after(json, b"\"id\":")?.trim_ascii_start().get(1..)?)
}

/// The first 16 digits of an id.
pub(super) fn key(id: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(id.get(..16)?).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{Reply, event_key};

    #[test]
    fn replies_are_told_from_their_first_bytes() {
        let id = "ab".repeat(32);
        for (text, accepted) in [
            (format!("[\"OK\",\"{id}\",true,\"\"]"), true),
            (format!("[\"OK\", \"{id}\", true, \"\"]"), true),
            (format!("[\"OK\",\"{id}\",false,\"invalid: not true\"]"), false),
        ] {
            assert_eq!(
                Reply::of(text.as_bytes()),
                Reply::Ok {
                    id: id.as_bytes(),
                    accepted
                }
            );
        }
        assert_eq!(Reply::of(b"[\"EOSE\",\"s\"]"), Reply::Eose);
        assert_eq!(Reply::of(b"[\"EVENT\",\"s\",{}]"), Reply::Event);
        assert_eq!(Reply::of(b"[\"NOTICE\",\"x\"]"), Reply::Other);
        assert_eq!(Reply::of(b"[\"OK\",\"short"), Reply::Other);
    }

    #[test]
    fn an_event_is_told_by_its_id_wherever_it_stands() {
        let json = br#"{"content":"\"id\":\"0000000000000000\"","id": "00000000000000ff00","kind":1}"#;
        assert_eq!(event_key(json), Some(255));
    }
}
