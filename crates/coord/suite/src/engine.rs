//! What the suite asks of an engine beyond the contract: to be opened, shared, opened again and disturbed.

use std::{future::Future, time::Duration};

use esker_coord_api::{BoxFuture, Clock, Store};

use crate::World;

/// Longer than any test takes on a busy machine.
const LONGEST: Duration = Duration::from_mins(5);

/// An engine under test: one store, and whatever keeps it alive, such as a temporary folder or a database of a cluster.
pub trait Engine: Sized + Send + Sync + 'static {
    /// The engine behind the store, so that the suite reaches what no handle shows.
    type Inner: esker_coord_api::Engine;

    /// Whether a held transaction keeps other writers waiting (CT-05). Where it does not, the suite lets them pass it.
    const WRITERS_WAIT: bool;

    /// Bytes of text that a notification can have at least, where there is a limit (CW-04); one that has more than
    /// twice as many must be refused.
    const PAYLOAD_LIMIT: Option<usize> = None;

    /// Opens a new, empty store whose time is this manual clock's.
    fn open(clock: Clock) -> impl Future<Output = Self> + Send;

    /// The store.
    fn store(&self) -> Store;

    /// Another handle on the same store, as another process would have one: it lives on when the first is closed.
    fn open_again(&self) -> impl Future<Output = Store> + Send;

    /// Opens a store again that was closed, on what it kept, with the clock that it had.
    fn reopen(self) -> impl Future<Output = Self> + Send;

    /// Called after each move of the clock: for an engine whose own clock has to follow.
    fn clock_moved(&self, _now: i64) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Cuts the connections of the store, as a restart of a database server would; `false` where there are none.
    fn cut_connections(&self) -> impl Future<Output = bool> + Send {
        async { false }
    }
}

/// Runs a rule's test on a new store of this engine, on a runtime with two workers. One that hangs fails here, so that its
/// name is told.
///
/// # Panics
///
/// When the test panics or does not end.
pub fn run<E: Engine>(rule: impl FnOnce(World) -> BoxFuture<'static, ()> + Send + 'static) {
    block_on(Box::pin(async move { rule(World::open::<E>().await).await }));
}

/// Runs a future to its end on a runtime of its own, with two workers.
///
/// # Panics
///
/// When it panics or does not end.
pub fn block_on(future: BoxFuture<'static, ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let done = runtime.block_on(async { tokio::time::timeout(LONGEST, future).await });
    runtime.shutdown_background();
    done.expect("the test ends: what it waits for did not come");
}

/// The engine under a world, whatever its type.
pub(crate) trait Subject: Send + Sync {
    fn store(&self) -> Store;
    fn inner<'s>(&self, store: &'s Store) -> &'s dyn esker_coord_api::Engine;
    fn writers_wait(&self) -> bool;
    fn payload_limit(&self) -> Option<usize>;
    fn open_again(&self) -> BoxFuture<'_, Store>;
    fn reopen(self: Box<Self>) -> BoxFuture<'static, Box<dyn Subject>>;
    fn clock_moved(&self, now: i64) -> BoxFuture<'_, ()>;
    fn cut_connections(&self) -> BoxFuture<'_, bool>;
}

impl<E: Engine> Subject for E {
    fn store(&self) -> Store {
        Engine::store(self)
    }

    fn inner<'s>(&self, store: &'s Store) -> &'s dyn esker_coord_api::Engine {
        store
            .engine::<E::Inner>()
            .expect("the engine that the suite was told of")
    }

    fn writers_wait(&self) -> bool {
        E::WRITERS_WAIT
    }

    fn payload_limit(&self) -> Option<usize> {
        E::PAYLOAD_LIMIT
    }

    fn open_again(&self) -> BoxFuture<'_, Store> {
        Box::pin(Engine::open_again(self))
    }

    fn reopen(self: Box<Self>) -> BoxFuture<'static, Box<dyn Subject>> {
        Box::pin(async move {
            let reopened: Box<dyn Subject> = Box::new(Engine::reopen(*self).await);
            reopened
        })
    }

    fn clock_moved(&self, now: i64) -> BoxFuture<'_, ()> {
        Box::pin(Engine::clock_moved(self, now))
    }

    fn cut_connections(&self) -> BoxFuture<'_, bool> {
        Box::pin(Engine::cut_connections(self))
    }
}

/// Says that a part of the suite does not apply to this engine, and why.
pub fn skip(what: &str, reason: &str) {
    eprintln!("skipped: {what}: {reason}");
}
