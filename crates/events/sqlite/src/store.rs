//! The store's handle: the contract's calls, each as one closure on the writer or on a reader.

use std::{
    path::Path,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use bytes::Bytes;
use esker_coord_sqlite::{Database, Error as DatabaseError, Snapshot, Transaction};
use esker_events_api::{
    BoxFuture, Change, Error, EventStore, Filters, Observer, Options, Outcome, Page, Position, Query, Stats,
    admission::position,
};
use esker_nostr::{Canonical, Event, EventId, Filter, PublicKey};

use crate::{
    counting::{fast_count, plain},
    deferred::Deferred,
    execution::{Ended, Take, execute},
    facts::FileFacts,
    schema::SCHEMA,
    source::Cost,
    upkeep,
    view::{View, newest_offset},
    write::{Writing, Written},
};

/// What this engine is told beyond what every engine takes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the file is opened and served.
    pub database: esker_coord_sqlite::Options,
    /// How many rows of the tag index may wait in memory before they are written, some 60 bytes each. They are
    /// derived again from the events when the file is opened next, which takes a fraction of a second.
    pub waiting_tag_rows: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            database: esker_coord_sqlite::Options::default(),
            waiting_tag_rows: 200_000,
        }
    }
}

/// An event store on one file; clones share it.
#[derive(Clone)]
pub struct SqliteStore {
    database: Database,
    writing: Writing,
    observers: Arc<RwLock<Vec<Observer>>>,
    last_cost: Arc<Mutex<Cost>>,
}

impl SqliteStore {
    /// Opens the file, or makes it; an older one is brought up to date in one transaction (STORE-K04).
    pub fn open(path: &Path, options: Options, settings: Settings) -> Result<Self, Error> {
        let database = Database::open(path, settings.database, &[SCHEMA]).map_err(error)?;
        let secret = block_on(database.read(Duration::MAX, upkeep::secret)).map_err(error)?;
        let deferred = Arc::new(Deferred::new(secret));
        Ok(Self {
            database,
            writing: Writing {
                options: Arc::new(options),
                secret,
                deferred,
                waiting_rows: settings.waiting_tag_rows,
            },
            observers: Arc::default(),
            last_cost: Arc::default(),
        })
    }

    /// The database handle beneath, for writes that commit together with events.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// What the last query, count or snapshot that ended cost: for tests and for whoever looks into a slow filter.
    pub fn last_cost(&self) -> Cost {
        *self.last_cost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write and tells the observers what it changed, in commit order.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writing, &mut Transaction<'_>) -> Result<(T, Vec<Change>), DatabaseError>
        + Send
        + 'static,
    ) -> Result<T, DatabaseError> {
        let writing = self.writing.clone();
        let observers = Arc::clone(&self.observers);
        self.database
            .write(move |tx: &mut Transaction<'_>| {
                let (value, changes) = work(&writing, tx)?;
                if !changes.is_empty() {
                    tx.after_commit(move || {
                        for observer in observers.read().unwrap_or_else(PoisonError::into_inner).iter() {
                            observer(&changes);
                        }
                    });
                }
                Ok(value)
            })
            .await
    }

    /// Runs a query on a reader until it ends or `page_time` is over, and keeps what it cost.
    async fn run<T: Send + 'static>(
        &self,
        query: Query,
        page_time: Option<Duration>,
        mut value: T,
        mut take: impl FnMut(&mut T, i64, Canonical<'_>) -> Take + Send + 'static,
    ) -> Result<(T, Query, Ended, i64), Error> {
        let writing = self.writing.clone();
        let last_cost = Arc::clone(&self.last_cost);
        let budget = writing.options.query_budget;
        let filters = Arc::clone(&query.filters);
        let left = budget.saturating_sub(query.spent);
        if left.is_zero() {
            return Err(over_budget(budget, &filters));
        }
        let result = self
            .database
            .read(left, move |snapshot: &mut Snapshot<'_>| {
                let began = Instant::now();
                let time = page_time.map_or(left, |time| time.min(left));
                let hidden_until = writing.options.hide_expired.then(|| writing.options.clock.now());
                let mut cost = Cost::default();
                loop {
                    let view = View::snapshot(snapshot.sql(), &writing.deferred, writing.secret)?
                        .hiding_expired(hidden_until);
                    // Nothing is given before a snapshot is found to be too old: each try begins from the query.
                    let mut next = query.clone();
                    let as_of = *next.as_of.get_or_insert(view.last());
                    let ended = execute(&view, &mut next, Some(time), &mut cost, |seq, event| {
                        take(&mut value, seq, event)
                    })?;
                    if ended == Ended::Stale {
                        snapshot.refresh()?;
                        continue;
                    }
                    *last_cost.lock().unwrap_or_else(PoisonError::into_inner) = cost;
                    next.spent += began.elapsed();
                    return Ok::<_, DatabaseError>((value, next, ended, as_of));
                }
            })
            .await;
        match result {
            Err(DatabaseError::OverBudget(_)) => Err(over_budget(budget, &filters)),
            Err(other) => Err(error(other)),
            Ok((_, next, Ended::At(_), _)) if next.spent >= budget => Err(over_budget(budget, &filters)),
            Ok(done) => Ok(done),
        }
    }
}

/// Waits for a future on this thread: opening is a plain function, wherever it is called from.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn over_budget(budget: Duration, filters: &Filters) -> Error {
    let filter = filters
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    Error::OverBudget { budget, filter }
}

/// The contract's error for the database's.
fn error(error: DatabaseError) -> Error {
    match error {
        DatabaseError::Closed => Error::Closed,
        DatabaseError::DiskFull => Error::DiskFull,
        other => Error::Engine(Box::new(other)),
    }
}

impl EventStore for SqliteStore {
    fn insert_batch(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(async move {
            let count = events.len();
            let written = self
                .write(move |writing, tx| {
                    let Written {
                        outcomes,
                        changes,
                        newest,
                    } = writing.insert_batch(tx, &events)?;
                    Ok(((outcomes, newest), changes))
                })
                .await;
            match written {
                Ok((outcomes, newest)) => {
                    if self.writing.deferred.is_behind(newest) {
                        // The first write, or another process wrote in between: what lacks is derived by a reader.
                        let writing = self.writing.clone();
                        let caught_up =
                            self.database
                                .read(Duration::MAX, move |snapshot: &mut Snapshot<'_>| {
                                    let newest = newest_offset(snapshot.sql())?;
                                    writing.deferred.derive(snapshot.sql(), newest)
                                });
                        if let Err(error) = caught_up.await {
                            tracing::warn!(%error, "tag rows are left to be derived by the next reader");
                        }
                    }
                    outcomes
                }
                Err(error) => vec![Outcome::Failed(error.to_string()); count],
            }
        })
    }

    fn contains(&self, ids: Vec<EventId>) -> BoxFuture<'_, Result<Vec<bool>, Error>> {
        Box::pin(async move {
            let secret = self.writing.secret;
            let stored: Vec<bool> = self
                .database
                .read(
                    self.writing.options.query_budget,
                    move |snapshot: &mut Snapshot<'_>| {
                        let facts = FileFacts {
                            sql: snapshot.sql(),
                            secret,
                        };
                        ids.iter()
                            .map(|id| Ok(facts.by_id(*id)?.is_some()))
                            .collect::<Result<_, DatabaseError>>()
                    },
                )
                .await
                .map_err(error)?;
            if stored.contains(&true) {
                // A reader sees a commit before it is on the disk; whoever is told "stored" may rely on it.
                self.database
                    .write(|_: &mut Transaction<'_>| Ok::<_, DatabaseError>(()))
                    .await
                    .map_err(error)?;
            }
            Ok(stored)
        })
    }

    fn page(&self, query: Query) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move {
            let limits = query.limits;
            let mut bytes = 0;
            let (found, mut next, ended, as_of) = self
                .run(
                    query,
                    Some(limits.time),
                    Vec::new(),
                    move |found: &mut Vec<(i64, Bytes)>, seq, event| {
                        let size = event.json().len();
                        let full = found.len() >= limits.events || bytes + size > limits.bytes;
                        if full && !found.is_empty() {
                            return Take::Full;
                        }
                        bytes += size;
                        found.push((seq, Bytes::copy_from_slice(event.json())));
                        if found.len() >= limits.events {
                            Take::Enough
                        } else {
                            Take::More
                        }
                    },
                )
                .await?;
            let next = match ended {
                Ended::At(position) => {
                    next.after = Some(position);
                    Some(next)
                }
                _ => None,
            };
            let (offsets, events) = found.into_iter().unzip();
            Ok(Page {
                events,
                offsets,
                as_of,
                next,
            })
        })
    }

    fn count(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            if let Some(filter) = plain(&filters)
                && let Some(counted) = self.fast_count(filter, &filters).await?
            {
                return Ok(counted);
            }
            let counted = self.run(Query::new(filters), None, 0, |count, _, _| {
                *count += 1;
                Take::More
            });
            counted.await.map(|(count, ..)| count)
        })
    }

    fn snapshot(&self, filters: Filters, max: usize) -> BoxFuture<'_, Result<Vec<Position>, Error>> {
        Box::pin(async move {
            let positions = self.run(
                Query::new(filters),
                None,
                Vec::new(),
                move |positions: &mut Vec<_>, _, event| {
                    positions.push(position(&event));
                    if positions.len() > max {
                        Take::Enough
                    } else {
                        Take::More
                    }
                },
            );
            positions.await.map(|(positions, ..)| positions)
        })
    }

    fn delete(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let filters: Vec<_> = filters
                .iter()
                .filter(|filter| Query::may_delete(filter))
                .cloned()
                .collect();
            self.write(move |writing, tx| {
                let seqs = writing.matching(tx.sql(), filters)?;
                let changes = writing.remove_all(tx, &seqs)?;
                Ok((seqs.len() as u64, changes))
            })
            .await
            .map_err(error)
        })
    }

    fn delete_id(&self, id: EventId) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            self.write(move |writing, tx| {
                let stored = FileFacts {
                    sql: tx.sql(),
                    secret: writing.secret,
                }
                .by_id(id)?;
                let Some((seq, _)) = stored else {
                    return Ok((false, Vec::new()));
                };
                Ok((true, writing.remove_all(tx, &[seq])?))
            })
            .await
            .map_err(error)
        })
    }

    fn delete_expired(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let mut removed = 0;
            loop {
                let batch = self
                    .write(|writing, tx| {
                        let seqs = upkeep::expired(tx.sql(), writing.options.clock.now(), upkeep::SWEEP)?;
                        let changes = writing.remove_all(tx, &seqs)?;
                        Ok((seqs.len(), changes))
                    })
                    .await
                    .map_err(error)?;
                removed += batch as u64;
                if batch < upkeep::SWEEP {
                    return Ok(removed);
                }
            }
        })
    }

    fn authors_missing_outbox(&self) -> BoxFuture<'_, Result<Vec<PublicKey>, Error>> {
        Box::pin(async move {
            self.database
                .read(Duration::MAX, |snapshot: &mut Snapshot<'_>| {
                    upkeep::authors_missing_outbox(snapshot.sql())
                })
                .await
                .map_err(error)
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, Error>> {
        Box::pin(async move {
            let mut stats = self
                .database
                .read(Duration::MAX, |snapshot: &mut Snapshot<'_>| {
                    upkeep::stats(snapshot.sql())
                })
                .await
                .map_err(error)?;
            stats.disk_bytes = self.database.disk_bytes();
            Ok(stats)
        })
    }

    fn observe(&self, observer: Observer) {
        self.observers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(observer);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.database.close())
    }
}

impl SqliteStore {
    /// A count that an index alone gives.
    async fn fast_count(&self, filter: &Filter, filters: &Filters) -> Result<Option<u64>, Error> {
        let filter = filter.clone();
        let hiding = self
            .writing
            .options
            .hide_expired
            .then(|| self.writing.options.clock.now());
        let budget = self.writing.options.query_budget;
        let counted = self
            .database
            .read(budget, move |snapshot: &mut Snapshot<'_>| {
                fast_count(snapshot.sql(), &filter, hiding)
            })
            .await;
        match counted {
            Err(DatabaseError::OverBudget(_)) => Err(over_budget(budget, filters)),
            other => other.map_err(error),
        }
    }
}
