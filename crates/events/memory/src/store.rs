//! The event store's trait over rows behind a lock: one change at a time, told to the observers in order.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use esker_events_api::{
    Accepted, BoxFuture, Change, Decision, Effects, Error, EventStore, Filters, KindStats, Observer, Options,
    Outcome, Page, Position, Query, Stats,
    admission::{is_expired, position},
    decide,
};
use esker_nostr::{Event, EventFields, EventId, PublicKey, kind};

use crate::rows::Rows;

/// An event store in memory. Clones of the `Arc` share it; when the last is dropped its events are gone.
pub struct MemoryStore {
    options: Options,
    /// `None` once the store is closed.
    rows: Mutex<Option<Rows>>,
    /// Held from a change until its observers returned, so that they are called in commit order. They may read
    /// the store meanwhile, as its rows are not locked then.
    writing: Mutex<()>,
    observers: Mutex<Vec<Observer>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn open(options: Options) -> Self {
        let rows = Rows::new(options.clone());
        Self {
            options,
            rows: Mutex::new(Some(rows)),
            writing: Mutex::new(()),
            observers: Mutex::new(Vec::new()),
        }
    }

    fn read<T>(&self, work: impl FnOnce(&mut Rows) -> T) -> Result<T, Error> {
        lock(&self.rows).as_mut().map(work).ok_or(Error::Closed)
    }

    /// Runs a change and tells the observers what it did.
    fn write<T>(&self, work: impl FnOnce(&mut Rows, &mut Vec<Change>) -> T) -> Result<T, Error> {
        let _writing = lock(&self.writing);
        let mut changes = Vec::new();
        let result = self.read(|rows| work(rows, &mut changes))?;
        if !changes.is_empty() {
            let observers = lock(&self.observers).clone();
            for observer in observers {
                observer(&changes);
            }
        }
        Ok(result)
    }

    fn insert_one(&self, rows: &mut Rows, event: Arc<Event>, now: i64, changes: &mut Vec<Change>) -> Outcome {
        let Ok(decision) = decide(&event, now, &self.options, rows);
        let effects = match decision {
            Decision::Refuse(outcome) => return outcome,
            Decision::Broadcast => {
                changes.push(Change::Accepted(Accepted { offset: None, event }));
                return Outcome::Ephemeral;
            }
            Decision::Keep(effects) => effects,
        };
        let Effects {
            replaced,
            deleted,
            vanished,
        } = effects;
        let mut gone: BTreeSet<Position> = replaced.into_iter().collect();
        gone.extend(rows.deleted_by(&event, &deleted));
        if let Some((author, before)) = vanished {
            gone.extend(rows.positions(|event| event.owner() == author && event.created_at() < before));
        }
        remove(rows, gone, changes);
        let offset = Some(rows.add(event.clone()));
        changes.push(Change::Accepted(Accepted { offset, event }));
        Outcome::Stored
    }

    /// Up to when what has expired is hidden from queries, if it is (STORE-W05).
    fn hidden_until(&self) -> Option<i64> {
        self.options.hide_expired.then(|| self.options.clock.now())
    }

    fn page_of(&self, rows: &Rows, mut query: Query) -> Page {
        let hidden_until = self.hidden_until();
        let as_of = *query.as_of.get_or_insert(rows.last_offset());
        let (mut events, mut offsets, mut bytes) = (Vec::new(), Vec::new(), 0);
        let next = loop {
            let mut ahead = query.clone();
            let Some(row) = rows.next(&mut ahead, hidden_until) else {
                break None;
            };
            let full = events.len() >= query.limits.events || bytes >= query.limits.bytes;
            if full && !events.is_empty() {
                break Some(query);
            }
            bytes += row.event.json().len();
            events.push(row.event.json().clone());
            offsets.push(row.offset);
            query = ahead;
        };
        Page {
            events,
            offsets,
            as_of,
            next,
        }
    }
}

/// Positions of what a query selects, `max` at most.
fn select(rows: &Rows, mut query: Query, hidden_until: Option<i64>, max: usize) -> Vec<Position> {
    let selected = std::iter::from_fn(|| rows.next(&mut query, hidden_until));
    selected.map(|row| position(&*row.event)).take(max).collect()
}

impl EventStore for MemoryStore {
    fn insert_batch(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Vec<Outcome>> {
        let now = self.options.clock.now();
        let count = events.len();
        let outcomes = self.write(|rows, changes| {
            events
                .into_iter()
                .map(|event| self.insert_one(rows, event, now, changes))
                .collect()
        });
        done(outcomes.unwrap_or_else(|closed| vec![Outcome::Failed(closed.to_string()); count]))
    }

    fn contains(&self, ids: Vec<EventId>) -> BoxFuture<'_, Result<Vec<bool>, Error>> {
        done(self.read(|rows| {
            let stored: HashSet<_> = rows.events().map(Event::id).collect();
            ids.iter().map(|id| stored.contains(id)).collect()
        }))
    }

    fn page(&self, query: Query) -> BoxFuture<'_, Result<Page, Error>> {
        done(self.read(|rows| self.page_of(rows, query)))
    }

    fn count(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        done(
            self.read(|rows| select(rows, Query::new(filters), self.hidden_until(), usize::MAX).len() as u64),
        )
    }

    fn snapshot(&self, filters: Filters, max: usize) -> BoxFuture<'_, Result<Vec<Position>, Error>> {
        done(self.read(|rows| {
            select(
                rows,
                Query::new(filters),
                self.hidden_until(),
                max.saturating_add(1),
            )
        }))
    }

    fn delete(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        let mut query = Query::new(filters);
        for (filter, remaining) in query.filters.iter().zip(&mut query.remaining) {
            if !Query::may_delete(filter) {
                *remaining = 0;
            }
        }
        done(self.write(|rows, changes| {
            let selected = select(rows, query, None, usize::MAX);
            remove(rows, selected, changes)
        }))
    }

    fn delete_id(&self, id: EventId) -> BoxFuture<'_, Result<bool, Error>> {
        done(self.write(|rows, changes| {
            let named = rows.positions(|event| event.id() == id);
            remove(rows, named, changes) > 0
        }))
    }

    fn delete_expired(&self) -> BoxFuture<'_, Result<u64, Error>> {
        let now = self.options.clock.now();
        done(self.write(|rows, changes| {
            let expired = rows.positions(|event| is_expired(event.expiration(), now));
            remove(rows, expired, changes)
        }))
    }

    fn authors_missing_outbox(&self) -> BoxFuture<'_, Result<Vec<PublicKey>, Error>> {
        done(self.read(|rows| {
            let authors = |test: fn(u16) -> bool| -> BTreeSet<_> {
                rows.events()
                    .filter(|event| test(event.kind()))
                    .map(Event::pubkey)
                    .collect()
            };
            let with_outbox = authors(|kind| kind == kind::RELAY_LIST);
            authors(|kind| kind != kind::GIFT_WRAP)
                .difference(&with_outbox)
                .copied()
                .collect()
        }))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, Error>> {
        done(self.read(|rows| {
            let mut kinds = BTreeMap::new();
            for event in rows.events() {
                let kind = event.kind();
                let share = kinds.entry(kind).or_insert(KindStats {
                    kind,
                    events: 0,
                    json_bytes: 0,
                });
                share.events += 1;
                share.json_bytes += event.json().len() as u64;
            }
            Stats {
                events: kinds.values().map(|share| share.events).sum(),
                json_bytes: kinds.values().map(|share| share.json_bytes).sum(),
                disk_bytes: 0,
                kinds: kinds.into_values().collect(),
                oldest: rows.events().map(Event::created_at).min(),
                newest: rows.events().map(Event::created_at).max(),
            }
        }))
    }

    fn observe(&self, observer: Observer) {
        lock(&self.observers).push(observer);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let _writing = lock(&self.writing);
        *lock(&self.rows) = None;
        done(())
    }
}

/// Everything is done when it is called, so that a dropped future undoes nothing.
fn done<'a, T: Send + 'a>(result: T) -> BoxFuture<'a, T> {
    Box::pin(ready(result))
}

/// A panicking observer leaves nothing half done: the rows were changed before it was called.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(rows: &mut Rows, positions: impl IntoIterator<Item = Position>, changes: &mut Vec<Change>) -> u64 {
    let mut removed = 0;
    for position in positions {
        if let Some(row) = rows.remove(&position) {
            changes.push(Change::Removed(row.event.json().clone()));
            removed += 1;
        }
    }
    removed
}
