//! From bytes to messages: fragments put together, control frames between them, inflating, UTF-8. No I/O.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    Violation,
    deflate::DeflatePool,
    frame::{CONTROL_MAX, Header, Opcode, unmask},
};
use crate::transport::Incoming;

/// Reads what a client sends.
///
/// A message may have at most `max` bytes, on the wire and inflated: a header that announces more, alone or
/// with the fragments before it, is refused when it is read.
pub(super) struct Decoder {
    max: usize,
    /// Set when permessage-deflate was agreed on.
    deflate: Option<Arc<DeflatePool>>,
    /// The frame whose payload is not complete yet.
    frame: Option<Header>,
    /// The message whose last fragment has not come yet.
    message: Option<Partial>,
}

struct Partial {
    opcode: Opcode,
    compressed: bool,
    payload: BytesMut,
}

impl Decoder {
    pub(super) fn new(max: usize, deflate: Option<Arc<DeflatePool>>) -> Self {
        Self {
            max,
            deflate,
            frame: None,
            message: None,
        }
    }

    /// Takes the next message or control frame off the front of `input`; `None` when more bytes are needed.
    pub(super) fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Incoming>, Violation> {
        loop {
            let header = if let Some(header) = self.frame {
                header
            } else {
                let Some((header, len)) = Header::parse(input)? else {
                    return Ok(None);
                };
                self.admit(&header)?;
                let _ = input.split_to(len);
                self.frame = Some(header);
                header
            };
            let len = usize::try_from(header.len).map_err(|_| Violation::TooBig)?;
            if input.len() < len {
                return Ok(None);
            }
            self.frame = None;
            let mut payload = input.split_to(len);
            unmask(&mut payload, header.mask);
            if let Some(incoming) = self.frame_complete(&header, payload)? {
                return Ok(Some(incoming));
            }
        }
    }

    /// Whether any of a frame is waiting for its rest, or a message for its last fragment.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.frame.is_none() && self.message.is_none()
    }

    /// The rules that need to know what came before, and the limit.
    fn admit(&self, header: &Header) -> Result<(), Violation> {
        if header.opcode.is_control() {
            return Ok(());
        }
        let before = match (&self.message, header.opcode) {
            (None, Opcode::Continuation) => return Err(Violation::Protocol("nothing to continue")),
            (None, _) => 0,
            (Some(message), Opcode::Continuation) => message.payload.len(),
            (Some(_), _) => return Err(Violation::Protocol("a message inside another one")),
        };
        if header.compressed && (header.opcode == Opcode::Continuation || self.deflate.is_none()) {
            return Err(Violation::Protocol("a reserved bit is set"));
        }
        if header.len > (self.max - before) as u64 {
            return Err(Violation::TooBig);
        }
        Ok(())
    }

    fn frame_complete(&mut self, header: &Header, payload: BytesMut) -> Result<Option<Incoming>, Violation> {
        match header.opcode {
            Opcode::Ping => Ok(Some(Incoming::Ping(Bytes::copy_from_slice(&payload)))),
            Opcode::Pong => Ok(Some(Incoming::Pong)),
            Opcode::Close => closing(&payload).map(Some),
            opcode => {
                let message = match self.message.take() {
                    Some(mut message) => {
                        message.payload.extend_from_slice(&payload);
                        message
                    }
                    None => Partial {
                        opcode,
                        compressed: header.compressed,
                        payload,
                    },
                };
                if header.fin {
                    self.message_complete(message).map(Some)
                } else {
                    self.message = Some(message);
                    Ok(None)
                }
            }
        }
    }

    fn message_complete(&self, message: Partial) -> Result<Incoming, Violation> {
        if message.opcode == Opcode::Binary {
            return Ok(Incoming::Binary);
        }
        let text = match &self.deflate {
            Some(pool) if message.compressed => Bytes::from(pool.inflate(&message.payload, self.max)?),
            _ => message.payload.freeze(),
        };
        if std::str::from_utf8(&text).is_err() {
            return Err(Violation::Payload("a text message is not UTF-8"));
        }
        Ok(Incoming::Text(text))
    }
}

/// Reads the payload of a Close frame.
fn closing(payload: &[u8]) -> Result<Incoming, Violation> {
    debug_assert!(payload.len() <= CONTROL_MAX, "the header was checked");
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() {
            Ok(Incoming::Close(None))
        } else {
            Err(Violation::Protocol("a close code of one byte"))
        };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::Protocol("a close code that may not be sent"));
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(Violation::Payload("a close reason is not UTF-8"));
    }
    Ok(Incoming::Close(Some(code)))
}

#[cfg(test)]
mod tests;
