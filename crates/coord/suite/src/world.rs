//! One store under test with its clock, and the short ways to its handles.

use esker_coord_api::{
    Clock, DeadPage, EnqueueOptions, Job, JobHandle, LocalName, Name, NewEvent, Payload, Queue, QueueOptions,
    Store, Stream, StreamEvent,
};

use crate::{Engine, engine::Subject};

/// When tests begin.
pub const NOW: i64 = 1_700_000_000;

/// A store under test. The engine's type is hidden, so that the tests are compiled once for all engines.
pub struct World {
    subject: Box<dyn Subject>,
    clock: Clock,
    store: Store,
}

impl World {
    /// A new, empty store of this engine, at [`NOW`].
    pub async fn open<E: Engine>() -> Self {
        let clock = Clock::manual(NOW);
        let engine = E::open(clock.clone()).await;
        Self::new(Box::new(engine), clock).await
    }

    async fn new(subject: Box<dyn Subject>, clock: Clock) -> Self {
        subject.clock_moved(clock.now()).await;
        Self {
            store: subject.store(),
            subject,
            clock,
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Another handle on the same store.
    pub async fn second(&self) -> Store {
        self.subject.open_again().await
    }

    /// The engine behind the store.
    pub fn inner(&self) -> &dyn esker_coord_api::Engine {
        self.inner_of(&self.store)
    }

    /// The engine behind another handle.
    pub fn inner_of<'s>(&self, store: &'s Store) -> &'s dyn esker_coord_api::Engine {
        self.subject.inner(store)
    }

    /// See [`Engine::WRITERS_WAIT`].
    pub fn writers_wait(&self) -> bool {
        self.subject.writers_wait()
    }

    /// See [`Engine::PAYLOAD_LIMIT`].
    pub fn payload_limit(&self) -> Option<usize> {
        self.subject.payload_limit()
    }

    /// See [`Engine::cut_connections`].
    pub async fn cut_connections(&self) -> bool {
        self.subject.cut_connections().await
    }

    /// Closes the store and opens it again on what it kept.
    pub async fn reopen(self) -> Self {
        let Self {
            subject,
            clock,
            store,
        } = self;
        store.close().await;
        drop(store);
        Self::new(subject.reopen().await, clock).await
    }

    /// The clock.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// What the clock shows.
    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Sets the clock.
    pub async fn set(&self, now: i64) {
        self.clock.set(now);
        self.subject.clock_moved(now).await;
    }

    /// Moves the clock forward.
    pub async fn advance(&self, seconds: i64) {
        self.set(self.now() + seconds).await;
    }

    /// A queue with the default options.
    pub fn queue(&self, name: &str) -> Queue {
        queue(&self.store, name)
    }

    /// A queue with other options.
    pub fn queue_with(&self, name: &str, options: QueueOptions) -> Queue {
        self.store.queue(name, options).expect("a queue")
    }

    /// A stream.
    pub fn stream(&self, name: &str) -> Stream {
        stream(&self.store, name)
    }
}

/// A queue of this handle, with the default options.
pub fn queue(store: &Store, name: &str) -> Queue {
    store.queue(name, QueueOptions::default()).expect("a queue")
}

/// A stream of this handle.
pub fn stream(store: &Store, name: &str) -> Stream {
    store.stream(name).expect("a stream")
}

/// Default options but for these.
pub fn options(visibility: i64, attempts: i64) -> QueueOptions {
    QueueOptions {
        visibility_timeout_s: visibility,
        max_attempts: attempts,
        ..QueueOptions::default()
    }
}

/// Ready after so many seconds.
pub fn delayed(delay: i64) -> EnqueueOptions {
    EnqueueOptions {
        delay: Some(delay),
        ..EnqueueOptions::default()
    }
}

/// Ready now, for so many seconds.
pub fn expiring(expires: i64) -> EnqueueOptions {
    EnqueueOptions {
        expires: Some(expires),
        ..EnqueueOptions::default()
    }
}

/// Of this priority.
pub fn important(priority: i64) -> EnqueueOptions {
    EnqueueOptions {
        priority,
        ..EnqueueOptions::default()
    }
}

/// Many jobs for a batch.
pub fn batch(n: usize) -> Vec<(Payload, EnqueueOptions)> {
    let job = |n: usize| (n.to_string().into(), EnqueueOptions::default());
    (0..n).map(job).collect()
}

/// The ids of claims, in their order.
pub fn ids(handles: &[JobHandle]) -> Vec<i64> {
    handles.iter().map(|handle| handle.job().id).collect()
}

/// Claims one job that is expected to be there.
pub async fn claim(queue: &Queue, worker: &str) -> JobHandle {
    let claimed = queue.claim_one(worker).await.unwrap();
    claimed.expect("a job that can be claimed")
}

/// A job that is expected to be there.
pub async fn job(queue: &Queue, id: i64) -> Job {
    let found = queue.get_job(id).await.unwrap();
    found.expect("a job that is stored")
}

/// All dead jobs.
pub async fn dead(queue: &Queue) -> Vec<Job> {
    let all = DeadPage {
        after: i64::MIN,
        limit: i64::MAX,
    };
    queue.dead_jobs(all).await.unwrap()
}

/// All events of a stream.
pub async fn events(stream: &Stream) -> Vec<StreamEvent> {
    stream.read_since(0, i64::MAX).await.unwrap()
}

/// Offsets and payloads as text.
pub fn texts(events: &[StreamEvent]) -> Vec<(i64, String)> {
    let text = |event: &StreamEvent| String::from_utf8_lossy(event.payload.as_bytes()).into_owned();
    events.iter().map(|event| (event.offset, text(event))).collect()
}

/// An event without a key.
pub fn event(payload: impl Into<Payload>) -> NewEvent {
    NewEvent::new(None, payload.into()).expect("an event without a key")
}

/// A checked name.
pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A checked local name.
pub fn local(text: &str) -> LocalName {
    LocalName::new(text).expect("a local name")
}
