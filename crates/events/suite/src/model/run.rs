//! A history on an engine and on memory at once: every answer of the one must be the other's.

use std::{fmt::Debug, sync::Arc, time::Duration};

use bytes::Bytes;
use esker_events_api::{Clock, Error, EventStore, Filters, PageLimits, Query, Stats};
use esker_events_memory::MemoryStore;
use esker_nostr::Filter;

use super::{
    seen::{self, Expected},
    step::{CURSORS, History, Step, short},
};
use crate::{
    Engine, naive,
    world::{Log, Seen},
};

/// What differed, or nothing.
pub(crate) type Verdict = Result<(), String>;

/// A query under way on both sides.
struct Cursor {
    handle: usize,
    engine: Query,
    /// `None` when memory has given all.
    memory: Option<Query>,
}

struct Run<E> {
    /// `None` only while it is being reopened.
    engine: Option<E>,
    handles: Vec<Arc<dyn EventStore>>,
    logs: Vec<Arc<Log>>,
    /// What the observers of each handle saw before the store was last reopened.
    earlier: Vec<Vec<Seen>>,
    memory: Arc<dyn EventStore>,
    memory_log: Arc<Log>,
    expected: Expected,
    clock: Clock,
    two_handles: bool,
    cursors: [Option<Cursor>; CURSORS],
}

/// Runs a history and tells the first difference.
pub(crate) async fn run<E: Engine>(history: &History) -> Verdict {
    let options = history.options();
    let clock = options.clock.clone();
    let memory: Arc<dyn EventStore> = Arc::new(MemoryStore::open(options.clone()));
    let mut run = Run {
        engine: None,
        handles: Vec::new(),
        logs: Vec::new(),
        earlier: Vec::new(),
        memory_log: Log::of(&memory),
        memory,
        expected: Expected::default(),
        clock,
        two_handles: history.two_handles,
        cursors: [const { None }; CURSORS],
    };
    run.attach(E::open(options).await).await;
    for (number, step) in (1..).zip(&history.steps) {
        run.step(step, history.eager)
            .await
            .map_err(|what| format!("at step {number}: {what}"))?;
    }
    run.end().await.map_err(|what| format!("at the end: {what}"))
}

fn same<T: PartialEq + Debug>(what: &str, engine: &T, memory: &T) -> Verdict {
    if engine == memory {
        Ok(())
    } else {
        Err(format!("{what}: the engine gives {engine:?}, memory {memory:?}"))
    }
}

fn same_events(what: &str, engine: &[Bytes], memory: &[Bytes]) -> Verdict {
    let ids = |events: &[Bytes]| {
        events
            .iter()
            .map(|json| short(naive::id(json)))
            .collect::<Vec<_>>()
    };
    same(what, &ids(engine), &ids(memory))?;
    if engine == memory {
        Ok(())
    } else {
        Err(format!("{what}: the bytes differ"))
    }
}

fn answered<T>(answer: Result<T, Error>) -> Result<T, String> {
    answer.map_err(|error| format!("an error: {error}"))
}

impl<E: Engine> Run<E> {
    async fn attach(&mut self, engine: E) {
        self.handles = vec![engine.store()];
        if self.two_handles {
            self.handles.extend(engine.second().await);
        }
        self.logs = self.handles.iter().map(Log::of).collect();
        self.earlier.resize(self.handles.len(), Vec::new());
        self.engine = Some(engine);
    }

    /// Keeps what was seen by the observers of handles that have ended.
    fn gather(&mut self) {
        for (earlier, log) in self.earlier.iter_mut().zip(&self.logs) {
            earlier.extend(log.wait(0));
        }
    }

    fn handle(&self, handle: usize) -> (usize, Arc<dyn EventStore>) {
        let handle = handle % self.handles.len();
        (handle, self.handles[handle].clone())
    }

    async fn step(&mut self, step: &Step, eager: bool) -> Verdict {
        let memory = self.memory.clone();
        let (handle, verdict) = match step {
            Step::Insert { handle, events } => {
                let (handle, store) = self.handle(*handle);
                let engine = store.insert_batch(events.clone()).await;
                (
                    handle,
                    same("outcomes", &engine, &memory.insert_batch(events.clone()).await),
                )
            }
            Step::Delete { handle, filters } => {
                let (handle, store) = self.handle(*handle);
                let engine = answered(store.delete(filters.clone()).await)?;
                (
                    handle,
                    same(
                        "removed",
                        &engine,
                        &answered(memory.delete(filters.clone()).await)?,
                    ),
                )
            }
            Step::DeleteId { handle, id } => {
                let (handle, store) = self.handle(*handle);
                let engine = answered(store.delete_id(*id).await)?;
                (
                    handle,
                    same("removed", &engine, &answered(memory.delete_id(*id).await)?),
                )
            }
            Step::Sweep { handle } => {
                let (handle, store) = self.handle(*handle);
                let engine = answered(store.delete_expired().await)?;
                (
                    handle,
                    same("swept", &engine, &answered(memory.delete_expired().await)?),
                )
            }
            other => return self.step_that_changes_nothing(other).await,
        };
        self.expected.add(handle, &self.memory_log);
        verdict?;
        if eager { self.same_content().await } else { Ok(()) }
    }

    async fn step_that_changes_nothing(&mut self, step: &Step) -> Verdict {
        match step {
            Step::Clock(now) => self.clock.set(*now),
            Step::Ask {
                handle,
                filters,
                size,
                max,
            } => self.ask(*handle, filters, *size, *max).await?,
            Step::Begin {
                handle,
                cursor,
                filters,
            } => {
                let query = Query::new(filters.clone());
                let (handle, _) = self.handle(*handle);
                self.cursors[*cursor] = Some(Cursor {
                    handle,
                    engine: query.clone(),
                    memory: Some(query),
                });
            }
            Step::Page { cursor, size, hasty } => self.page(*cursor, *size, *hasty).await?,
            Step::Contains { handle, ids } => {
                let (_, store) = self.handle(*handle);
                let engine = answered(store.contains(ids.clone()).await)?;
                same(
                    "contains",
                    &engine,
                    &answered(self.memory.contains(ids.clone()).await)?,
                )?;
            }
            Step::Figures { handle } => self.figures(*handle).await?,
            Step::Reopen => {
                self.handles.clear();
                let engine = self
                    .engine
                    .take()
                    .expect("an engine between steps")
                    .reopen()
                    .await;
                self.gather();
                self.attach(engine).await;
            }
            Step::Insert { .. } | Step::Delete { .. } | Step::DeleteId { .. } | Step::Sweep { .. } => {}
        }
        Ok(())
    }

    async fn ask(&self, handle: usize, filters: &Filters, size: usize, max: usize) -> Verdict {
        let (_, store) = self.handle(handle);
        let limits = PageLimits {
            events: size,
            ..PageLimits::default()
        };
        let mut events = Vec::new();
        let mut next = Some(Query::new(filters.clone()).with_limits(limits));
        while let Some(query) = next {
            let page = answered(store.page(query).await)?;
            events.extend(page.events);
            next = page.next;
        }
        let expected = answered(self.memory.query(filters.clone()).await)?;
        same_events("query", &events, &expected)?;
        let count = answered(store.count(filters.clone()).await)?;
        same("count", &count, &(expected.len() as u64))?;
        let snapshot = answered(store.snapshot(filters.clone(), max).await)?;
        same(
            "snapshot",
            &snapshot,
            &answered(self.memory.snapshot(filters.clone(), max).await)?,
        )
    }

    /// A hasty page may end early, so memory follows the engine: it must give the same events as far as the engine
    /// went, and have none left when the engine has none.
    async fn page(&mut self, cursor: usize, size: usize, hasty: bool) -> Verdict {
        let Some(Cursor {
            handle,
            engine,
            memory,
        }) = self.cursors[cursor].take()
        else {
            return Ok(());
        };
        let time = if hasty {
            Duration::from_micros(20)
        } else {
            Duration::from_hours(1)
        };
        let limits = PageLimits {
            events: size,
            bytes: usize::MAX,
            time,
        };
        // The store may have been reopened since.
        let (handle, store) = self.handle(handle);
        let page = answered(store.page(engine.with_limits(limits)).await)?;
        let mut rest = memory;
        if let Some(mut query) = rest.take() {
            let follow = async |query: &Query, events| {
                let query = query.clone().with_limits(PageLimits { events, ..limits });
                answered(self.memory.page(query).await)
            };
            let one = follow(&query, 1).await?;
            // The first page is of this moment, even if it is empty.
            query.as_of = Some(one.as_of);
            rest = (!one.events.is_empty()).then_some(query);
            if let (false, Some(query)) = (page.events.is_empty(), &rest) {
                let expected = follow(query, page.events.len()).await?;
                same_events("page", &page.events, &expected.events)?;
                rest = expected.next;
            }
        }
        match (&page.next, &rest) {
            (_, None) if rest.is_none() && page.events.is_empty() => {}
            (None, Some(_)) => return Err("the engine has given all, memory has more".into()),
            (Some(_), Some(_)) if page.events.len() < size && !hasty => {
                return Err(format!(
                    "a page of {} of {size}, and more to come",
                    page.events.len()
                ));
            }
            _ => {}
        }
        self.cursors[cursor] = page.next.map(|engine| Cursor {
            handle,
            engine,
            memory: rest,
        });
        Ok(())
    }

    async fn figures(&self, handle: usize) -> Verdict {
        let (_, store) = self.handle(handle);
        let stats = Stats {
            disk_bytes: 0,
            ..answered(store.stats().await)?
        };
        same("stats", &stats, &answered(self.memory.stats().await)?)?;
        let missing = answered(store.authors_missing_outbox().await)?;
        same(
            "authors without outbox",
            &missing,
            &answered(self.memory.authors_missing_outbox().await)?,
        )
    }

    async fn same_content(&self) -> Verdict {
        for handle in 0..self.handles.len() {
            self.ask(handle, &[Filter::default()].into(), 500, usize::MAX)
                .await?;
        }
        Ok(())
    }

    async fn end(mut self) -> Verdict {
        self.same_content().await?;
        for handle in 0..self.handles.len() {
            self.figures(handle).await?;
        }
        for store in &self.handles {
            store.close().await;
        }
        self.gather();
        seen::compare(&self.earlier, &self.expected)
    }
}
