//! Esker's coordination store: durable queues, streams, locks, schedules and wakes in the database that you have.
//!
//! One [`Store`] has them all, on SQLite (one host, one file, many processes), on Postgres (many hosts) or in memory (one
//! process, for tests). The same code runs on each: [`open()`] picks the engine by URL. And side effects commit with the
//! writes that they belong to, or not at all.
//!
//! # A first tour
//!
//! ```
//! use esker_coord::{CancellationToken, Job, QueueOptions, WorkOptions};
//! # use esker_coord as coord;
//! #
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("app.db").display());
//!
//! let store = coord::open(&url).await?; // "sqlite:app.db", or "postgres://app@db/app"
//!
//! // A queue: each job to one worker, until it is done.
//! let mails = store.queue("mails", QueueOptions::default())?;
//! mails.enqueue("welcome, ada").await?;
//!
//! // A stream: every event to every consumer, in order, from where it left off.
//! let events = store.stream("signups")?;
//! let offset = events.publish("ada").await?;
//! assert_eq!(events.read_from_consumer("billing", 10).await?[0].offset, offset);
//! events.save_offset("billing", offset).await?;
//! assert!(events.read_from_consumer("billing", 10).await?.is_empty());
//!
//! // A lock: held by one, until it is given back or its time is up.
//! let lock = store.try_lock("nightly-report", "host-1", 30).await?.expect("nobody else has it");
//! assert!(store.try_lock("nightly-report", "host-2", 30).await?.is_none());
//! lock.release().await?;
//!
//! // A worker, until it is told to stop.
//! let stop = CancellationToken::new();
//! let stopping = stop.clone();
//! let send = async move |job: &Job| {
//!     assert_eq!(job.payload.as_bytes(), b"welcome, ada");
//!     stopping.cancel();
//!     Ok(())
//! };
//! let report = mails.work(WorkOptions::default(), send, stop).await?;
//! assert_eq!(report.acked, 1);
//! # store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Which mechanism when
//!
//! | You want | Take |
//! |---|---|
//! | something done once, by whoever is free, and again if it fails | a [`Queue`] |
//! | something told to the outside world if and only if a write commits | an [`Outbox`] |
//! | many parts to follow what happened, each at its own pace | a [`Stream`] |
//! | something done every so often, by one of many processes | a schedule: [`Store::schedule`], [`Store::run_schedules`] |
//! | only one process to do something at a time | a [`Lock`], [kept](Lock::keep) meanwhile, its [fence](Lock::fence) on what it writes |
//! | others to look again at once, and it is no loss if they miss it | [`Store::notify`], [`Store::listen`] |
//!
//! # What is guaranteed
//!
//! Each promise is a rule with an id, such as CQ-03, and the pages here name them; `docs/contracts/coordination.md` in the
//! repository has them all.
//!
//! | mechanism | durable | delivery | order | replay |
//! |---|---|---|---|---|
//! | wake | no | at least once while connected, may merge | none | none |
//! | stream | yes | every consumer, at least once; exactly once with the offset saved in the same transaction | offset | from any offset |
//! | queue, outbox | yes | one claimer at a time, at least once | priority, time, id | until acknowledged |
//! | lock | until its ttl | mutual exclusion within the ttl, fenced | none | none |
//! | schedule | yes | at least once per boundary, bounded catch-up | time | the newest 64 |
//!
//! An operation that has returned is durable. At least once means that a handler may see a job or an event again, after
//! a crash between the work and its acknowledgement: make handlers idempotent, or put the work and the offset into one
//! transaction.
//!
//! # Transactions, and your own SQL
//!
//! What is enqueued, published, notified and saved through a [`Transaction`] appears with its commit, all at once, and is
//! gone with its rollback. The engine's own transaction runs your statements, so that they commit together:
//!
//! ```
//! use esker_coord::{QueueOptions, sqlite::SqliteTransaction};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let store = esker_coord::open(&format!("sqlite:{}", folder.path().join("app.db").display())).await?;
//!
//! let shipping = store.queue("shipping", QueueOptions { max_attempts: 10, ..QueueOptions::default() })?;
//! let item = "tea";
//! store
//!     .with_transaction(async |tx| {
//!         let own = SqliteTransaction::of(tx).expect("the store is on SQLite");
//!         // Runs on the thread that writes: give it what it needs.
//!         let ordered = item.to_owned();
//!         own.run(move |sql| {
//!             sql.sql().execute_batch("CREATE TABLE orders (item TEXT)")?;
//!             sql.sql().execute("INSERT INTO orders VALUES (?1)", [&ordered])?;
//!             Ok::<_, esker_coord::sqlite::Error>(())
//!         })
//!         .await?;
//!         shipping.enqueue_in(tx, item).await?;
//!         tx.publish("orders", item).await?;
//!         Ok::<_, esker_coord::Error>(())
//!     })
//!     .await?;
//! assert!(shipping.claim_one("worker").await?.is_some());
//! # store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! On Postgres it is `postgres::PostgresTransaction::of(tx)`, whose `client()` is a `tokio_postgres::Client` within the
//! transaction; where one of your statements fails there, the transaction can only be rolled back, unless a `SAVEPOINT` was
//! before it (on SQLite each `run` has one of its own). The drivers are `sqlite::rusqlite` and `postgres::tokio_postgres`;
//! in memory there is no SQL.
//!
//! The closure's error may be any type that [`Error`] converts into; a driver's error does not convert into [`Error`] by
//! itself. With SQL of your own, have one error type for your app that is made from all three, the driver's, the engine's
//! and [`Error`], or use `Box<dyn std::error::Error + Send + Sync>`, and end with `Ok::<_, YourError>(value)`.
//!
//! Inside, use `tx` alone: a [`Queue`] or [`Stream`] handle is no part of the transaction, and on SQLite would wait for its
//! end. Jobs that `tx` enqueues by their queue's name carry the default queue options; [`Queue::enqueue_in`] stamps them with
//! the queue's own, as [`Outbox::enqueue_in`] does. On SQLite a transaction holds the file's one writer, so hold it
//! shortly; for one write with its side effects there is `sqlite::SqliteEngine::write`, which shares its commit with others,
//! and for reads of your own tables `SqliteEngine::database().read`; both by [`Store::engine`]. On Postgres, read them by a
//! pool of your own. A consumer that keeps its own
//! tables, with its offset saved in the same transaction, sees each event exactly once, however many do its
//! work.
//!
//! In one process, open a SQLite file with this crate alone, as often as you please: another SQLite library that closes the
//! same file drops the locks of this one. Other processes may use what they like.
//!
//! Examples to run: `order` (own SQL on both engines), `webhook` (an outbox), `schedule` (a leader and its successor),
//! `projection` (exactly once).
//!
//! # Workers
//!
//! [`Queue::work`] claims jobs, hands each to an async closure, and stores what becomes of it: `Ok` is done, an error is
//! tried again later, ever later, until the job's attempts are spent and it is a dead letter ([`Queue::dead_jobs`],
//! [`Queue::redrive`]). [`JobError`] says what else there is. [`Outbox::run`] is the same for deliveries. Both end when a
//! [`CancellationToken`] is cancelled, and leave nothing held.
//!
//! To spawn one, make the handler an `async move` closure that owns what it uses, such as a clone of an `Arc` of your app:
//! what borrows it is told by the compiler as "implementation of `Send` is not general enough".
//!
//! ```
//! use std::sync::Arc;
//!
//! use esker_coord::{CancellationToken, Job, JobError, Queue, WorkOptions};
//!
//! struct App {
//!     mails: Queue,
//! }
//!
//! impl App {
//!     async fn send(&self, job: &Job) -> Result<(), JobError> {
//!         println!("{} {:?}", self.mails.name(), job.payload);
//!         Ok(())
//!     }
//!
//!     fn start(self: Arc<Self>, stop: CancellationToken) -> tokio::task::JoinHandle<esker_coord::Result<()>> {
//!         let mails = self.mails.clone();
//!         let send = async move |job: &Job| self.send(job).await;
//!         tokio::spawn(async move { mails.work(WorkOptions::default(), send, stop).await.map(drop) })
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Who wants to do it by hand has [`Queue::claim_batch`] and the [`JobHandle`]'s operations.
//!
//! # Locks
//!
//! A lock lapses by itself, so that one whose holder died is free again. Who needs it for longer keeps it meanwhile, and stops
//! when it is lost; the fence is for what was under way by then.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let store = esker_coord::open(&format!("sqlite:{}", folder.path().join("app.db").display())).await?;
//! # async fn write_report(fence: i64) -> i64 { fence }
//! let lock = store.try_lock("report", "host-1", 30).await?.ok_or("another writes it")?;
//! tokio::select! {
//!     written = write_report(lock.fence()) => assert_eq!(written, 1),
//!     lost = lock.keep(30) => {
//!         lost?; // the store failed for too long
//!         return Err("the lock was lost".into());
//!     }
//! }
//! lock.release().await?;
//! # store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors and outcomes
//!
//! There is one [`Error`]. What a caller can act on has a variant; what the database did is [`Error::Database`], and its
//! [`outcome`](Error::outcome) says whether the work was certainly undone ([`Outcome::Aborted`]: try again) or may have
//! been done, because the commit lost its answer ([`Outcome::Unknown`]: look before you try again). That there is no
//! job, that a lock is held by another, that an acknowledgement came too late: these are values, not errors.
//!
//! An error's text does not repeat that of its source, so print the whole chain, as `anyhow` does with `{:#}`;
//! [`Error::report`] is all of it on one line. The source of [`Error::Database`] is the engine's error, `sqlite::Error` or
//! `postgres::Error`, from which the driver's can be had.
//!
//! # Features
//!
//! `sqlite` (default), `postgres` and `memory`; `tls` is `postgres` with TLS. What is not enabled is not in the binary. The
//! engines' own options, and all that is theirs alone, are under the modules of the same names; nothing there is needed to
//! use the store.

mod location;
mod open;
#[cfg(feature = "sqlite")]
mod sqlite_url;

#[doc(inline)]
pub use esker_coord_api::{
    CancellationToken, Clock, DeadPage, EnqueueOptions, Error, EventReceiver, Inspection, Job, JobError,
    JobHandle, JobState, LocalName, Lock, Name, NewEvent, Outbox, Outcome, Payload, Queue, QueueOptions,
    RECONNECTED, Result, SchedulerOptions, Store, Stream, StreamEvent, Transaction, Wake, WakeReceiver,
    WorkOptions, WorkReport,
};
#[cfg(feature = "memory")]
pub use esker_coord_memory as memory;
#[cfg(feature = "postgres")]
pub use esker_coord_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use esker_coord_sqlite as sqlite;
pub use location::Location;
pub use open::open;

/// [`Job::last_error`] where no worker gave one (CQ-05).
pub mod last_error {
    #[doc(inline)]
    pub use esker_coord_api::{EXPIRED, FAILED, MAX_ATTEMPTS};
}

/// What [`Store::inspect`] tells, part by part.
pub mod inspection {
    #[doc(inline)]
    pub use esker_coord_api::{
        ConsumerInspection, LockInspection, QueueInspection, ScheduleInspection, StreamInspection,
    };
}

/// For who writes an engine or wraps one: what a store asks of it, and the rules that every engine shares. Nothing here is
/// needed to use a [`Store`].
pub mod engine {
    #[doc(inline)]
    pub use esker_coord_api::{
        BoxFuture, CatchUp, Channel, Claim, Claimed, Cursor, Engine, EngineTransaction, Firing, FiringRoom,
        LockAttempt, MOST_REPLAYED, MOST_SETTLED, NewJob, NewSchedule, NextTime, Settlement, Spec, Start,
        WakeHub, backoff, claim_order, extent, has_lapsed, is_claimable, settles, sleep, spent_error,
        with_sources,
    };
}
