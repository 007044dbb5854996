//! The stored events in the order of results, and the questions that rules and queries ask of them.

use std::{collections::BTreeMap, convert::Infallible, ops::Bound, sync::Arc};

use esker_events_api::{
    Address, Facts, Options, Position, Query, Targets,
    admission::{is_expired, position},
    deletion, vanish,
};
use esker_nostr::{Event, EventFields, EventId, PublicKey, kind};

/// One stored event and its offset on the accepted-events stream.
pub(crate) struct Row {
    pub(crate) offset: i64,
    pub(crate) event: Arc<Event>,
}

/// Everything that is stored.
pub(crate) struct Rows {
    options: Options,
    stored: BTreeMap<Position, Row>,
    last_offset: i64,
}

impl Rows {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            stored: BTreeMap::new(),
            last_offset: 0,
        }
    }

    /// The offset of the newest accepted event, stored still or not.
    pub(crate) fn last_offset(&self) -> i64 {
        self.last_offset
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.stored.values().map(|row| &*row.event)
    }

    /// Stores an event at the next offset.
    pub(crate) fn add(&mut self, event: Arc<Event>) -> i64 {
        self.last_offset += 1;
        self.stored.insert(
            position(&*event),
            Row {
                offset: self.last_offset,
                event,
            },
        );
        self.last_offset
    }

    pub(crate) fn remove(&mut self, position: &Position) -> Option<Row> {
        self.stored.remove(position)
    }

    /// Where the events stand that pass a test.
    pub(crate) fn positions(&self, test: impl Fn(&Event) -> bool) -> Vec<Position> {
        self.stored
            .iter()
            .filter(|(_, row)| test(&row.event))
            .map(|(position, _)| *position)
            .collect()
    }

    /// What a kind 5 deletes (STORE-D01, D02, D05).
    pub(crate) fn deleted_by(&self, request: &Event, targets: &Targets) -> Vec<Position> {
        let Targets { ids, addresses } = targets;
        self.positions(|event| {
            let by_id = ids.contains(&event.id());
            let by_address = Address::of(event).is_some_and(|address| addresses.contains(&address))
                && deletion::blocks(request.created_at(), event);
            (by_id || by_address) && self.may_reach(request, event)
        })
    }

    fn may_reach(&self, request: &Event, event: &Event) -> bool {
        let revocable = self.options.revocable_deletions;
        deletion::may_reach(request.pubkey(), event.owner(), event.kind(), revocable)
    }

    /// The next row of a query's result; the query moves on to it. An event counts against every filter that it
    /// matches and that may still give one (STORE-F07). What has expired by `hidden_until` is passed over.
    pub(crate) fn next(&self, query: &mut Query, hidden_until: Option<i64>) -> Option<&Row> {
        let open = (0..query.filters.len())
            .filter(|index| query.is_open(*index))
            .collect::<Vec<_>>();
        if open.is_empty() {
            return None;
        }
        let after = query.after.map_or(Bound::Unbounded, Bound::Excluded);
        for (position, row) in self.stored.range((after, Bound::Unbounded)) {
            let accepted_later = query.as_of.is_some_and(|as_of| row.offset > as_of);
            let hidden = hidden_until.is_some_and(|now| is_expired(row.event.expiration(), now));
            if accepted_later || hidden {
                continue;
            }
            let mut selected = false;
            for index in &open {
                if query.filters[*index].matches(&*row.event) {
                    query.remaining[*index] -= 1;
                    selected = true;
                }
            }
            if selected {
                query.after = Some(*position);
                return Some(row);
            }
        }
        None
    }
}

impl Facts for Rows {
    type Error = Infallible;

    fn holds(&mut self, event: &Event) -> Result<bool, Infallible> {
        Ok(self.stored.contains_key(&position(event)))
    }

    fn vanished_at(&mut self, author: PublicKey) -> Result<Option<i64>, Infallible> {
        let relay_url = self.options.relay_url.as_deref();
        let requests = self
            .events()
            .filter(|event| event.kind() == kind::VANISH && event.pubkey() == author);
        Ok(requests
            .filter(|request| vanish::honours(request, relay_url))
            .map(Event::created_at)
            .max())
    }

    fn deleted_at(
        &mut self,
        author: PublicKey,
        id: EventId,
        address: Option<&Address>,
    ) -> Result<Option<i64>, Infallible> {
        let requests = self
            .events()
            .filter(|event| event.kind() == kind::DELETION && event.pubkey() == author);
        Ok(requests
            .filter(|request| Targets::of(request).name(id, address))
            .map(Event::created_at)
            .max())
    }

    fn version(&mut self, address: &Address) -> Result<Option<Position>, Infallible> {
        Ok(self
            .events()
            .find(|event| Address::of(event).as_ref() == Some(address))
            .map(position))
    }
}
