//! Streams: events by offset, and consumers that follow them (CS-*).

use std::{collections::VecDeque, sync::Arc};

use serde::de::DeserializeOwned;

use crate::{
    Channel, Engine, Error, LocalName, Name, Payload, Result, WakeReceiver,
    options::extent,
    wait::{Waiting, Woken},
};

/// Events that a subscription holds at most (CS-07).
const PAGE: usize = 256;

/// An event of a stream (CS-02).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// Its place: 1 is the first, and none is used twice.
    pub offset: i64,
    /// The stream's name.
    pub stream: Name,
    /// What was published with it; it orders nothing.
    pub key: Option<String>,
    /// What was published.
    pub payload: Payload,
    /// When it was published, in unix seconds; informative, never an order.
    pub created_at: i64,
}

impl StreamEvent {
    /// Decodes the payload's JSON.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        self.payload.decode()
    }
}

/// An event to be published, with a key that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    key: Option<String>,
    payload: Payload,
}

impl NewEvent {
    /// Checks the key: `None` or not empty, else [`Error::InvalidName`] (CS-01).
    pub fn new(key: Option<&str>, payload: impl Into<Payload>) -> Result<Self> {
        if key.is_some_and(str::is_empty) {
            return Err(Error::InvalidName {
                name: String::new(),
                reason: "a key must not be empty",
            });
        }
        Ok(Self {
            key: key.map(str::to_owned),
            payload: payload.into(),
        })
    }

    /// What it carries beside the payload: `None`, or not empty.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// What is published.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// The key and the payload.
    pub fn into_parts(self) -> (Option<String>, Payload) {
        (self.key, self.payload)
    }
}

/// An event without a key.
impl From<Payload> for NewEvent {
    fn from(payload: Payload) -> Self {
        Self { key: None, payload }
    }
}

/// Where a read begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// After this offset.
    After(i64),
    /// After the offset that this consumer has saved.
    Saved(LocalName),
}

/// A stream of a store, by name. Clones are cheap.
#[derive(Clone)]
pub struct Stream {
    engine: Arc<dyn Engine>,
    name: Name,
}

impl Stream {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: Name) -> Self {
        Self { engine, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Appends an event, and gives its offset (CS-01).
    pub async fn publish(&self, payload: impl Into<Payload>) -> Result<i64> {
        self.publish_with_key(None, payload).await
    }

    /// Appends an event with a key, and gives its offset. The key is carried and does nothing else (CS-01).
    pub async fn publish_with_key(&self, key: Option<&str>, payload: impl Into<Payload>) -> Result<i64> {
        let event = NewEvent::new(key, payload)?;
        let offsets = self.publish_batch(vec![event]).await?;
        Ok(offsets[0])
    }

    /// Appends many events in one transaction, and gives their offsets, in order.
    pub async fn publish_batch(&self, events: Vec<NewEvent>) -> Result<Vec<i64>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        self.engine.publish(self.name.clone(), events).await
    }

    /// Events after `offset`, ascending, at most `limit`; none for a limit that is not positive (CS-05).
    pub async fn read_since(&self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.read(Cursor::After(offset), limit).await
    }

    /// Events after what the consumer has saved (CS-05).
    pub async fn read_from_consumer(&self, consumer: &str, limit: i64) -> Result<Vec<StreamEvent>> {
        self.read(Cursor::Saved(LocalName::new(consumer)?), limit).await
    }

    /// Saves how far a consumer has come. A lower offset than the saved one changes nothing (CS-06).
    pub async fn save_offset(&self, consumer: &str, offset: i64) -> Result<()> {
        let consumer = LocalName::new(consumer)?;
        self.engine.save_offset(self.name.clone(), consumer, offset).await
    }

    /// How far a consumer has come: 0 when it has saved nothing (CS-06).
    pub async fn get_offset(&self, consumer: &str) -> Result<i64> {
        let consumer = LocalName::new(consumer)?;
        self.engine.get_offset(self.name.clone(), consumer).await
    }

    /// Deletes events up to and including `horizon`, and tells how many (CS-08). Offsets stay, also saved ones.
    pub async fn trim_to(&self, horizon: i64) -> Result<u64> {
        self.engine.trim_to(self.name.clone(), horizon).await
    }

    /// Listens for publishes, without reading.
    pub async fn listen(&self) -> Result<WakeReceiver> {
        self.engine.listen(Channel::stream(&self.name)).await
    }

    /// Follows the stream from what the consumer has saved (CS-07). Nothing is saved unasked.
    pub async fn subscribe(&self, consumer: &str) -> Result<EventReceiver> {
        let consumer = LocalName::new(consumer)?;
        // Before the first read, so that no event falls between them.
        let wakes = self.listen().await?;
        let position = self
            .engine
            .get_offset(self.name.clone(), consumer.clone())
            .await?;
        Ok(EventReceiver {
            stream: self.clone(),
            consumer,
            waiting: Waiting::new(self.engine.clone(), wakes),
            page: VecDeque::new(),
            position,
            yielded: None,
        })
    }

    async fn read(&self, from: Cursor, limit: i64) -> Result<Vec<StreamEvent>> {
        match extent(limit) {
            0 => Ok(Vec::new()),
            limit => self.engine.read(self.name.clone(), from, limit).await,
        }
    }
}

/// A consumer that follows a stream: first what is there, then what comes. Made by [`Stream::subscribe`].
///
/// It holds at most one page of events; a slow consumer costs no memory. Nothing is saved on drop.
pub struct EventReceiver {
    stream: Stream,
    consumer: LocalName,
    waiting: Waiting,
    page: VecDeque<StreamEvent>,
    /// The offset of the last event that was read.
    position: i64,
    yielded: Option<i64>,
}

impl EventReceiver {
    /// The next event, as soon as there is one; `None` is the end: the store was closed or its source died. After an
    /// error, the same event is tried again.
    pub async fn recv(&mut self) -> Option<Result<StreamEvent>> {
        loop {
            if let Some(event) = self.next() {
                return Some(Ok(event));
            }
            match self.fill().await {
                Ok(true) => {}
                Ok(false) => {
                    if self.waiting.wait(None).await == Woken::Closed {
                        return None;
                    }
                }
                Err(Error::Closed) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The next event, if there is one by now: of the page at hand, or of the store.
    pub async fn try_recv(&mut self) -> Result<Option<StreamEvent>> {
        if self.page.is_empty() {
            self.fill().await?;
        }
        Ok(self.next())
    }

    /// Events of the stream after `offset`, without moving this receiver.
    pub async fn read_since(&self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.stream.read_since(offset, limit).await
    }

    /// Saves the offset of the event that was received last; before any, this does nothing.
    pub async fn save_offset(&self) -> Result<()> {
        match self.yielded {
            Some(offset) => self.stream.save_offset(self.consumer.as_str(), offset).await,
            None => Ok(()),
        }
    }

    /// The offset of the event that was received last; 0 before any.
    pub fn offset(&self) -> i64 {
        self.yielded.unwrap_or(0)
    }

    fn next(&mut self) -> Option<StreamEvent> {
        let event = self.page.pop_front()?;
        self.yielded = Some(event.offset);
        Some(event)
    }

    /// Reads the next page, and tells whether it has events.
    async fn fill(&mut self) -> Result<bool> {
        let cursor = Cursor::After(self.position);
        let events = self
            .stream
            .engine
            .read(self.stream.name.clone(), cursor, PAGE)
            .await?;
        let Some(last) = events.last() else {
            return Ok(false);
        };
        self.position = last.offset;
        self.waiting.found();
        self.page = events.into();
        Ok(true)
    }
}
