//! What the suite asks of an engine beyond the contract: to be opened, shared and opened again.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use esker_events_api::{EventStore, Options};

/// An engine under test: one store and whatever keeps it alive, such as a temporary folder.
pub trait Engine: Sized + Send + Sync + 'static {
    /// Whether a query has a time budget here (STORE-K05). Where it has none, the rule's tests say that they skip.
    const HAS_BUDGET: bool = true;

    /// Opens a new, empty store.
    fn open(options: Options) -> impl Future<Output = Self> + Send;

    /// The store.
    fn store(&self) -> Arc<dyn EventStore>;

    /// Ends the store and opens it again on what it kept, with the options that it had. An engine that keeps
    /// nothing goes on as it is.
    fn reopen(self) -> impl Future<Output = Self> + Send {
        async { self }
    }

    /// Another handle on the same store, as a second process would have one; `None` where there is no such thing.
    fn second(&self) -> impl Future<Output = Option<Arc<dyn EventStore>>> + Send {
        async { None }
    }

    /// Runs a future to its end on this thread. An engine that needs a runtime brings it here.
    fn run<T>(future: impl Future<Output = T>) -> T {
        block_on(future)
    }
}

/// Polls a future on this thread, which sleeps in between: all that stores without a runtime need.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}
