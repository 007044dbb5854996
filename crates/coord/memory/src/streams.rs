//! Streams: events by offset, and how far consumers have come.

use std::collections::BTreeMap;

use esker_coord_api::{Cursor, LocalName, Name, NewEvent, StreamEvent};

/// By name.
#[derive(Clone, Default)]
pub(crate) struct Streams(BTreeMap<Name, Stream>);

#[derive(Clone, Default)]
pub(crate) struct Stream {
    /// The offset of the newest event ever published.
    pub(crate) last: i64,
    pub(crate) events: BTreeMap<i64, StreamEvent>,
    pub(crate) consumers: BTreeMap<LocalName, i64>,
}

impl Streams {
    pub(crate) fn publish(&mut self, name: &Name, event: NewEvent, now: i64) -> i64 {
        let stream = self.stream(name);
        stream.last += 1;
        let (key, payload) = event.into_parts();
        let event = StreamEvent {
            offset: stream.last,
            stream: name.clone(),
            key,
            payload,
            created_at: now,
        };
        stream.events.insert(event.offset, event);
        stream.last
    }

    pub(crate) fn read(&self, name: &Name, from: &Cursor, limit: usize) -> Vec<StreamEvent> {
        let after = match from {
            Cursor::After(offset) => *offset,
            Cursor::Saved(consumer) => self.offset(name, consumer),
        };
        let events = self
            .0
            .get(name)
            .into_iter()
            .flat_map(|stream| stream.events.values());
        let beyond = events.filter(|event| event.offset > after);
        beyond.take(limit).cloned().collect()
    }

    pub(crate) fn save_offset(&mut self, name: &Name, consumer: LocalName, offset: i64) {
        // Who has saved nothing is at 0, so that nothing below it is ever saved.
        let saved = self.stream(name).consumers.entry(consumer).or_default();
        *saved = offset.max(*saved);
    }

    pub(crate) fn offset(&self, name: &Name, consumer: &LocalName) -> i64 {
        let saved = self.0.get(name).and_then(|stream| stream.consumers.get(consumer));
        saved.copied().unwrap_or(0)
    }

    pub(crate) fn trim_to(&mut self, name: &Name, horizon: i64) -> u64 {
        let Some(stream) = self.0.get_mut(name) else {
            return 0;
        };
        let before = stream.events.len();
        stream.events.retain(|offset, _| *offset > horizon);
        (before - stream.events.len()) as u64
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Name, &Stream)> {
        self.0.iter()
    }

    fn stream(&mut self, name: &Name) -> &mut Stream {
        self.0.entry(name.clone()).or_default()
    }
}
