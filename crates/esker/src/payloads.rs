//! Payloads in and out of the program: arguments and standard input, text and JSON.

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    thread,
};

use esker_coord::Payload;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::output::printable;

/// Payloads that are stored together.
pub(crate) const BATCH: usize = 1_000;

/// Longest payload, in bytes.
const LONGEST: u64 = 64 << 20;

/// Where payloads come from.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Payloads {
    /// The payload, as it is; `-` reads standard input to its end
    #[arg(value_name = "PAYLOAD")]
    payload: Option<String>,
    /// Take each line of standard input as a payload
    #[arg(long)]
    lines: bool,
}

impl Payloads {
    /// The payloads, in batches, as they can be read.
    pub(crate) fn read(self) -> mpsc::Receiver<io::Result<Vec<Payload>>> {
        let (batches, read) = mpsc::channel(1);
        // Standard input cannot be waited for otherwise, and whoever has enough lets it be.
        thread::spawn(move || match self.payload {
            Some(text) => {
                let _ = batches.blocking_send(argument(text).map(|payload| vec![payload]));
            }
            None => send_lines(&batches),
        });
        read
    }
}

/// The payload of one argument.
pub(crate) fn argument(text: String) -> io::Result<Payload> {
    if text != "-" {
        return Ok(Payload::new(text));
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes)?;
    whole(bytes)
}

fn send_lines(batches: &mpsc::Sender<io::Result<Vec<Payload>>>) {
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        let mut batch = Vec::new();
        let end = loop {
            match line(&mut input) {
                Ok(Some(payload)) => batch.push(payload),
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
            // What has come is stored before more is waited for.
            if batch.len() == BATCH || !input.buffer().contains(&b'\n') {
                break None;
            }
        };
        if (!batch.is_empty() && batches.blocking_send(Ok(batch)).is_err()) || end.is_some() {
            if let Some(Err(error)) = end {
                let _ = batches.blocking_send(Err(error));
            }
            return;
        }
    }
}

fn line(input: &mut impl io::BufRead) -> io::Result<Option<Payload>> {
    let mut bytes = Vec::new();
    if input.take(LONGEST + 1).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    whole(bytes).map(Some)
}

fn whole(bytes: Vec<u8>) -> io::Result<Payload> {
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!(
            "a payload is longer than {LONGEST} bytes"
        )));
    }
    Ok(Payload::new(bytes))
}

/// For machines: the text, or `{"hex": …}` of what is no text.
pub(crate) fn json(payload: &Payload) -> Value {
    match str::from_utf8(payload.as_bytes()) {
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": const_hex::encode(payload.as_bytes()) }),
    }
}

/// For people: the text without control characters, or the bytes in hexadecimal.
pub(crate) fn text(payload: &Payload) -> String {
    match str::from_utf8(payload.as_bytes()) {
        Ok(text) => printable(text),
        Err(_) => format!("0x{}", const_hex::encode(payload.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use esker_coord::Payload;

    use super::{json, text};

    #[test]
    fn payloads_are_shown_on_one_line_and_lose_nothing_in_json() {
        let plain = Payload::new("{\"a\":\"é\"}");
        assert_eq!(
            (text(&plain).as_str(), json(&plain)),
            ("{\"a\":\"é\"}", "{\"a\":\"é\"}".into())
        );
        let lines = Payload::new("a\nb\u{1b}[2J");
        assert_eq!(text(&lines), "a\\nb\\u{1b}[2J");
        assert_eq!(json(&lines), "a\nb\u{1b}[2J");
        let bytes = Payload::new(vec![0xff, 0]);
        assert_eq!(
            (text(&bytes).as_str(), json(&bytes)),
            ("0xff00", serde_json::json!({"hex": "ff00"}))
        );
    }
}
