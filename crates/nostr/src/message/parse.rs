//! From a text frame to a [`ClientMessage`], or to a refusal that names what it is about.

use std::borrow::Cow;

use super::{ClientMessage, MAX_FILTERS, MAX_ID_CHARACTERS, MessageError, Subject};
use crate::{
    event,
    filter::{Filter, FilterError},
    hex,
    scan::{self, ScanError, Scanner},
};

impl<'a> ClientMessage<'a> {
    /// Parses one text frame (RELAY-01).
    pub fn parse(frame: &'a [u8]) -> Result<Self, MessageError> {
        // Also a frame that is not UTF-8 throughout is read for the id that its refusal should carry.
        let (text, utf8_error) = match scan::text(frame) {
            Ok(text) => (text, None),
            Err(error) => (scan::text(&frame[..error.at]).unwrap_or_default(), Some(error)),
        };
        let mut reader = Reader {
            frame,
            scanner: Scanner::new(text),
            subject: Subject::None,
        };
        let message = reader.message();
        let reason = match (message, utf8_error) {
            // An event's bytes are checked where it is parsed.
            (Ok(message @ (Self::Event(_) | Self::Auth(_))), _) | (Ok(message), None) => return Ok(message),
            (_, Some(error)) => malformed(error),
            (Err(reason), None) => reason,
        };
        Err(MessageError {
            reason,
            subject: reader.subject,
        })
    }
}

/// A refusal's text, with its prefix.
type Result<T, E = String> = std::result::Result<T, E>;

fn invalid(text: impl std::fmt::Display) -> String {
    format!("invalid: {text}")
}

fn malformed(ScanError { at, expected }: ScanError) -> String {
    invalid(format_args!("expected {expected} at byte {at}"))
}

/// Reads one message; `subject` is what a refusal will be about, as far as it is known.
struct Reader<'a> {
    frame: &'a [u8],
    scanner: Scanner<'a>,
    subject: Subject,
}

impl<'a> Reader<'a> {
    fn message(&mut self) -> Result<ClientMessage<'a>> {
        self.scanner.take(b'[', "a list").map_err(malformed)?;
        if self.scanner.peek() != Some(b'"') {
            return Err(invalid("a message must begin with its type, a string"));
        }
        let kind = self.scanner.string().map_err(malformed)?.decode();
        let subscription = |id: &str| Subject::Subscription(id.to_owned());
        let negentropy = |id: &str| Subject::Negentropy(id.to_owned());
        match &*kind {
            "EVENT" => self.event().map(ClientMessage::Event),
            "AUTH" => self.event().map(ClientMessage::Auth),
            "REQ" => {
                let id = self.id(subscription)?;
                self.filters().map(|filters| ClientMessage::Req { id, filters })
            }
            "COUNT" => {
                let id = self.id(subscription)?;
                self.filters().map(|filters| ClientMessage::Count { id, filters })
            }
            "CLOSE" => {
                let id = self.id(|_| Subject::None)?;
                self.end(ClientMessage::Close(id))
            }
            "NEG-OPEN" => {
                let id = self.id(negentropy)?;
                self.next("a filter")?;
                let filter = Box::new(self.filter(1)?);
                let message = self.hex()?;
                self.end(ClientMessage::NegOpen { id, filter, message })
            }
            "NEG-MSG" => {
                let id = self.id(negentropy)?;
                let message = self.hex()?;
                self.end(ClientMessage::NegMsg { id, message })
            }
            "NEG-CLOSE" => {
                let id = self.id(negentropy)?;
                self.end(ClientMessage::NegClose(id))
            }
            other => Err(format!(
                "unsupported: unknown message type {}",
                scan::cut(other, 32)
            )),
        }
    }

    /// The member that stands between here and the frame's last bracket, which must be an object's bytes.
    fn event(&mut self) -> Result<&'a [u8]> {
        self.next("an event")?;
        let rest = trim(&self.frame[self.scanner.position()..]);
        self.subject = event::peek_id(rest).map_or(Subject::None, Subject::Event);
        let body = rest
            .strip_suffix(b"]")
            .ok_or_else(|| invalid("the message must end with ]"))?;
        if !body.starts_with(b"{") {
            return Err(invalid("the event must be an object"));
        }
        Ok(trim(body))
    }

    /// The id that follows, which the subject is made of.
    fn id(&mut self, subject: impl Fn(&str) -> Subject) -> Result<Cow<'a, str>> {
        self.next("an id")?;
        if self.scanner.peek() != Some(b'"') {
            return Err(invalid("the id must be a string"));
        }
        let id = self.scanner.string().map_err(malformed)?.decode();
        let fitting = scan::cut(&id, MAX_ID_CHARACTERS);
        self.subject = subject(fitting);
        if id.is_empty() {
            return Err(invalid("the id must not be empty"));
        }
        if fitting.len() < id.len() {
            return Err(invalid(format_args!(
                "the id must have at most {MAX_ID_CHARACTERS} characters"
            )));
        }
        Ok(id)
    }

    /// The filters that follow, to the message's end.
    fn filters(&mut self) -> Result<Vec<Filter>> {
        self.next("a filter")?;
        let mut filters = Vec::new();
        loop {
            if filters.len() == MAX_FILTERS {
                return Err(invalid(format_args!(
                    "a message may carry at most {MAX_FILTERS} filters"
                )));
            }
            filters.push(self.filter(filters.len() + 1)?);
            if !self.more()? {
                return self.scanner.end().map_err(malformed).map(|()| filters);
            }
        }
    }

    fn filter(&mut self, number: usize) -> Result<Filter> {
        Filter::read(&mut self.scanner).map_err(|error| {
            // NIP-01 lets filters grow: a field of a later time is well formed, only not known here.
            let prefix = match error {
                FilterError::Unknown(_) => "unsupported",
                _ => "invalid",
            };
            format!("{prefix}: {error} (filter {number})")
        })
    }

    /// The hexadecimal string that follows.
    fn hex(&mut self) -> Result<&'a str> {
        self.next("a message in hex")?;
        let text = self.scanner.string().map_err(malformed)?.raw;
        if !text.len().is_multiple_of(2) || !hex::is_lowercase(text.as_bytes()) {
            return Err(invalid("the message must be lowercase hex"));
        }
        Ok(text)
    }

    /// Goes on to the next member, which must be there.
    fn next(&mut self, expected: &str) -> Result<()> {
        if self.more()? {
            Ok(())
        } else {
            Err(invalid(format_args!("{expected} must follow")))
        }
    }

    fn more(&mut self) -> Result<bool> {
        self.scanner.more(b']', &mut false).map_err(malformed)
    }

    /// Makes sure that the message ends here.
    fn end(&mut self, message: ClientMessage<'a>) -> Result<ClientMessage<'a>> {
        if self.more()? {
            return Err(invalid("nothing more may follow"));
        }
        self.scanner.end().map_err(malformed)?;
        Ok(message)
    }
}

/// Without the white space (JSON's) around it.
fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] | [rest @ .., b' ' | b'\t' | b'\n' | b'\r'] = bytes {
        bytes = rest;
    }
    bytes
}
