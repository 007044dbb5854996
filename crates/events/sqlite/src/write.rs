//! Inserting: each event in its savepoint, with its effects, its rows and its place on the stream.

use std::sync::Arc;

use esker_coord_sqlite::{
    Error, Transaction,
    rusqlite::{Connection, params},
};
use esker_events_api::{
    Accepted, Address, Change, Options, Outcome,
    admission::{self, Decision, Effects},
    deletion,
};
use esker_nostr::{Canonical, Event, EventFields, Filter, PublicKey, kind};

use crate::{
    deferred::Deferred,
    execution::{Ended, Take, execute},
    facts::FileFacts,
    flush::flush_slice,
    keys::{self, Key, Secret},
    remove::{deletion_keys, fetch, remove},
    rows::TagRows,
    slices::SLICES,
    source::Cost,
    tally::Tally,
    view::{View, newest_offset},
};

/// What every write needs.
#[derive(Clone)]
pub(crate) struct Writing {
    pub(crate) options: Arc<Options>,
    pub(crate) secret: Secret,
    pub(crate) deferred: Arc<Deferred>,
    /// Tag rows may wait up to this number; beyond it each write flushes as many as it adds.
    pub(crate) waiting_rows: usize,
}

/// What a batch did.
pub(crate) struct Written {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) changes: Vec<Change>,
    /// The stream's newest offset after it.
    pub(crate) newest: i64,
}

/// What the events of a batch did so far.
#[derive(Default)]
struct Batch {
    outcomes: Vec<Outcome>,
    changes: Vec<Change>,
    tally: Tally,
    rows: Vec<TagRows>,
}

impl Batch {
    fn absorb(&mut self, outcome: Outcome, done: Done) {
        self.outcomes.push(outcome);
        self.changes.extend(done.changes);
        self.tally.absorb(done.tally);
        self.rows.extend(done.rows);
    }
}

/// What one event did; forgotten with its savepoint if it fails.
#[derive(Default)]
struct Done {
    tally: Tally,
    changes: Vec<Change>,
    rows: Option<TagRows>,
}

impl Writing {
    /// Inserts a batch in the writer's transaction (STORE-W08).
    ///
    /// The events share one savepoint, since each costs a copy of every page that changes in it. Only when one of
    /// them fails is the batch done again, with a savepoint for each, so that the bad one costs only itself.
    pub(crate) fn insert_batch(
        &self,
        tx: &mut Transaction<'_>,
        events: &[Arc<Event>],
    ) -> Result<Written, Error> {
        let now = self.options.clock.now();
        let before = newest_offset(tx.sql())?;
        let together = tx.savepoint(|tx| {
            let mut batch = Batch::default();
            for event in events {
                let mut done = Done::default();
                let outcome = self.insert(tx.sql(), event, now, &mut done)?;
                batch.absorb(outcome, done);
            }
            Ok::<_, Error>(batch)
        });
        let batch = match together {
            Ok(batch) => batch,
            // The transaction itself is gone.
            Err(error) if tx.sql().is_autocommit() => return Err(error),
            Err(_) => self.insert_one_by_one(tx, events, now)?,
        };
        let Batch {
            outcomes,
            changes,
            tally,
            rows,
        } = batch;
        tally.write(tx.sql())?;
        self.make_room(tx, rows.iter().map(|event| event.tags.len()).sum())?;
        let newest = rows.last().map_or(before, |event| event.key.seq);
        if newest > before {
            let deferred = Arc::clone(&self.deferred);
            tx.after_commit(move || deferred.committed(before, newest, &rows));
        }
        Ok(Written {
            outcomes,
            changes,
            newest,
        })
    }

    fn insert_one_by_one(
        &self,
        tx: &mut Transaction<'_>,
        events: &[Arc<Event>],
        now: i64,
    ) -> Result<Batch, Error> {
        let mut batch = Batch::default();
        for event in events {
            let inserted = tx.savepoint(|tx| {
                let mut done = Done::default();
                let outcome = self.insert(tx.sql(), event, now, &mut done)?;
                Ok::<_, Error>((outcome, done))
            });
            match inserted {
                Ok((outcome, done)) => batch.absorb(outcome, done),
                Err(error) if tx.sql().is_autocommit() => return Err(error),
                Err(error) => batch.outcomes.push(Outcome::Failed(error.to_string())),
            }
        }
        Ok(batch)
    }

    /// Removes events by `seq`, with all that hangs on them, and tells the changes.
    pub(crate) fn remove_all(&self, tx: &mut Transaction<'_>, seqs: &[i64]) -> Result<Vec<Change>, Error> {
        let mut tally = Tally::default();
        let mut changes = Vec::with_capacity(seqs.len());
        for &seq in seqs {
            if let Some(json) = fetch(tx.sql(), seq)? {
                remove(tx.sql(), self.secret, seq, json, &mut tally, &mut changes)?;
            }
        }
        tally.write(tx.sql())?;
        Ok(changes)
    }

    /// The stored events that the filters match, in the writer's view, each filter's limit honoured. What has
    /// expired and waits for the sweep is among them.
    pub(crate) fn matching(
        &self,
        sql: &Connection,
        filters: impl Into<esker_events_api::Filters>,
    ) -> Result<Vec<i64>, Error> {
        let view = View::writer(sql, &self.deferred, self.secret);
        let mut query = esker_events_api::Query::new(filters);
        let mut seqs = Vec::new();
        let ended = execute(&view, &mut query, None, &mut Cost::default(), |seq, _| {
            seqs.push(seq);
            Take::More
        })?;
        debug_assert_eq!(
            ended,
            Ended::Complete,
            "the writer's view is never stale and has no time limit"
        );
        Ok(seqs)
    }

    /// Once as many tag rows wait as may, flushes as many as were added: a slice or a few per commit, so that no
    /// write waits for all of them.
    fn make_room(&self, tx: &mut Transaction<'_>, added: usize) -> Result<(), Error> {
        let excess = (self.deferred.len() + added).saturating_sub(self.waiting_rows);
        if excess == 0 {
            return Ok(());
        }
        let due = added.max(excess / SLICES);
        let mut flushed = 0;
        for _ in 0..SLICES {
            flushed += flush_slice(tx, &self.deferred)?;
            if flushed >= due {
                break;
            }
        }
        Ok(())
    }

    fn insert(
        &self,
        sql: &Connection,
        event: &Arc<Event>,
        now: i64,
        done: &mut Done,
    ) -> Result<Outcome, Error> {
        let mut facts = FileFacts {
            sql,
            secret: self.secret,
        };
        match admission::decide(event, now, &self.options, &mut facts)? {
            Decision::Refuse(outcome) => Ok(outcome),
            Decision::Broadcast => {
                let event = Arc::clone(event);
                done.changes
                    .push(Change::Accepted(Accepted { offset: None, event }));
                Ok(Outcome::Ephemeral)
            }
            Decision::Keep(effects) => {
                let vanished = effects.vanished.is_some();
                for seq in self.reached(&facts, event, effects)? {
                    if let Some(json) = fetch(sql, seq)? {
                        remove(sql, self.secret, seq, json, &mut done.tally, &mut done.changes)?;
                    }
                }
                let rows = self.add(sql, event, vanished)?;
                done.tally.stored(event.kind(), event.json().len());
                let accepted = Accepted {
                    offset: Some(rows.key.seq),
                    event: Arc::clone(event),
                };
                done.changes.push(Change::Accepted(accepted));
                done.rows = Some(rows);
                Ok(Outcome::Stored)
            }
        }
    }

    /// The stored events that go when this one comes, each once, oldest first.
    fn reached(&self, facts: &FileFacts<'_>, event: &Event, effects: Effects) -> Result<Vec<i64>, Error> {
        let mut seqs = Vec::new();
        if effects.replaced.is_some()
            && let Some(address) = Address::of(event)
        {
            seqs.extend(facts.by_address(&address)?.map(|(seq, _)| seq));
        }
        for id in effects.deleted.ids {
            if let Some((seq, json)) = facts.by_id(id)? {
                let target = Canonical::new(&json);
                let revocable = self.options.revocable_deletions;
                if deletion::may_reach(event.pubkey(), target.owner(), target.kind(), revocable) {
                    seqs.push(seq);
                }
            }
        }
        for address in effects.deleted.addresses {
            if let Some((seq, json)) = facts.by_address(&address)?
                && deletion::blocks(event.created_at(), &Canonical::new(&json))
            {
                seqs.push(seq);
            }
        }
        if let Some((author, before)) = effects.vanished {
            seqs.extend(self.owned(facts.sql, author, before)?);
        }
        seqs.sort_unstable();
        seqs.dedup();
        Ok(seqs)
    }

    /// What an author owns from before a time: the author's own events but for gift wraps to somebody else, and the
    /// gift wraps to the author (STORE-W06, D07).
    fn owned(&self, sql: &Connection, author: PublicKey, before: i64) -> Result<Vec<i64>, Error> {
        let Some(until) = before.checked_sub(1) else {
            return Ok(Vec::new());
        };
        let own = Filter {
            authors: Some([author].into_iter().collect()),
            until: Some(until),
            ..Filter::default()
        };
        let wraps = Filter {
            kinds: Some([kind::GIFT_WRAP].into_iter().collect()),
            tags: vec![esker_nostr::TagCondition {
                name: 'p',
                values: [author.to_string().into_boxed_str()].into_iter().collect(),
            }],
            until: Some(until),
            ..Filter::default()
        };
        let seqs = self.matching(sql, vec![own, wraps])?;
        let mut owned = Vec::with_capacity(seqs.len());
        for seq in seqs {
            if fetch(sql, seq)?.is_some_and(|json| Canonical::new(&json).owner() == author) {
                owned.push(seq);
            }
        }
        Ok(owned)
    }

    /// Writes the event's rows; those of the tag index wait.
    fn add(&self, sql: &Connection, event: &Event, vanished: bool) -> Result<TagRows, Error> {
        let kind = event.kind();
        let expires = event.expiration();
        sql.prepare_cached("INSERT INTO events (kind, expires, json) VALUES (?1, ?2, ?3)")?
            .execute(params![kind, expires, &event.json()[..]])?;
        let seq = sql.last_insert_rowid();
        let Key { time, place, .. } = Key::of(event, seq);
        let author = keys::author(event.pubkey());
        sql.prepare_cached("INSERT INTO by_id (place, seq, time) VALUES (?1, ?2, ?3)")?
            .execute(params![place, seq, time])?;
        sql.prepare_cached("INSERT INTO by_time (time, place, seq) VALUES (?1, ?2, ?3)")?
            .execute(params![time, place, seq])?;
        sql.prepare_cached(
            "INSERT INTO by_kind (kind, time, place, seq, author) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![kind, time, place, seq, author])?;
        sql.prepare_cached(
            "INSERT INTO by_author (author, kind, time, place, seq) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![author, kind, time, place, seq])?;
        if let Some(address) = Address::of(event) {
            sql.prepare_cached("INSERT INTO by_address (address, seq) VALUES (?1, ?2)")?
                .execute(params![self.secret.address(&address), seq])?;
        }
        if let Some(expires) = expires {
            sql.prepare_cached("INSERT INTO by_expiry (expires, seq) VALUES (?1, ?2)")?
                .execute([expires, seq])?;
        }
        for target in deletion_keys(event, self.secret) {
            sql.prepare_cached("INSERT OR IGNORE INTO deletions (target, seq) VALUES (?1, ?2)")?
                .execute([target, seq])?;
        }
        if vanished {
            sql.prepare_cached("INSERT INTO vanishes (author, seq) VALUES (?1, ?2)")?
                .execute([author, seq])?;
        }
        Ok(TagRows::of(event, seq, self.secret))
    }
}
