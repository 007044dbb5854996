//! A bounded first-in first-out queue between async callers and worker threads.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;

/// Callers wait for room asynchronously, threads wait for items by blocking. Once closed it takes nothing more, and
/// hands out what it has.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
    room: Semaphore,
}

struct State<T> {
    items: VecDeque<T>,
    /// Threads that may be asleep and were not woken: never fewer than there are, so that no wake is missed, and
    /// mostly as many, so that a push seldom makes a needless system call.
    asleep: usize,
    closed: bool,
}

/// The queue takes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

/// What a wait with a bound gave.
pub(crate) enum Popped<T> {
    Item(T),
    TimedOut,
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State {
            items: VecDeque::new(),
            asleep: 0,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            ready: Condvar::new(),
            room: Semaphore::new(capacity),
        }
    }

    /// Adds `item`, when there is room. A future dropped before has added nothing.
    pub(crate) async fn push(&self, item: T) -> Result<(), Closed> {
        let room = self.room.acquire().await.map_err(|_| Closed)?;
        let wake = {
            let mut state = self.lock();
            if state.closed {
                return Err(Closed);
            }
            state.items.push_back(item);
            let wake = state.asleep > 0;
            state.asleep = state.asleep.saturating_sub(1);
            wake
        };
        room.forget();
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// The next item; `None` when the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        self.pop_while(|| true)
    }

    /// The next item, if one comes within `wait`.
    pub(crate) fn pop_within(&self, wait: Duration) -> Popped<T> {
        let sleeps = |state: &mut State<T>| {
            let sleeps = state.items.is_empty() && !state.closed;
            state.asleep += usize::from(sleeps);
            sleeps
        };
        let waited = self.ready.wait_timeout_while(self.lock(), wait, sleeps);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.items.pop_front() {
            Some(item) => {
                drop(state);
                self.room.add_permits(1);
                Popped::Item(item)
            }
            None if state.closed => Popped::Closed,
            None => Popped::TimedOut,
        }
    }

    /// The next item, if one comes while `waiting` holds. Whoever ends that calls [`look_again`](Self::look_again).
    pub(crate) fn pop_while(&self, waiting: impl Fn() -> bool) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                drop(state);
                self.room.add_permits(1);
                return Some(item);
            }
            if state.closed || !waiting() {
                return None;
            }
            state.asleep += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes who waits in [`pop_while`](Self::pop_while).
    pub(crate) fn look_again(&self) {
        // Under the lock, so that it falls before the look or into the wait, never between them.
        let _state = self.lock();
        self.ready.notify_all();
    }

    /// Moves what waits, in order and at most `most`, to the end of `into`, without waiting.
    pub(crate) fn take_waiting(&self, into: &mut VecDeque<T>, most: usize) {
        let taken = {
            let mut state = self.lock();
            let taken = state.items.len().min(most);
            into.extend(state.items.drain(..taken));
            taken
        };
        if taken > 0 {
            self.room.add_permits(taken);
        }
    }

    /// Takes nothing more from now on; who waits for room is refused, who waits for an item is woken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.room.close();
        self.ready.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// No user code runs under the lock, so what a poisoned one guards is whole.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn foundation_queue_keeps_order_and_refuses_after_close() {
        let queue = Queue::new(3);
        for n in 0..3 {
            queue.push(n).await.unwrap();
        }
        queue.close();
        assert_eq!(queue.push(3).await, Err(Closed));
        assert_eq!(
            (queue.pop(), queue.pop(), queue.pop(), queue.pop()),
            (Some(0), Some(1), Some(2), None)
        );
    }

    #[tokio::test]
    async fn foundation_queue_holds_back_who_pushes_into_a_full_one() {
        let queue = Queue::new(1);
        queue.push(0).await.unwrap();
        let mut second = Box::pin(queue.push(1));
        assert!(futures_poll(second.as_mut()).is_pending());
        assert_eq!(queue.pop(), Some(0));
        assert!(futures_poll(second.as_mut()).is_ready());
        let mut third = Box::pin(queue.push(2));
        assert!(futures_poll(third.as_mut()).is_pending());
        queue.close();
        assert_eq!(third.await, Err(Closed));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.pop(), None);
    }

    #[tokio::test]
    async fn foundation_queue_wait_with_a_bound_ends() {
        let queue = Queue::new(1);
        assert!(matches!(
            queue.pop_within(Duration::from_millis(1)),
            Popped::TimedOut
        ));
        queue.push(7).await.unwrap();
        assert!(matches!(
            queue.pop_within(Duration::from_mins(1)),
            Popped::Item(7)
        ));
        queue.close();
        assert!(matches!(queue.pop_within(Duration::from_mins(1)), Popped::Closed));
    }

    #[test]
    fn foundation_queue_wait_ends_with_what_it_is_for() {
        let queue = Queue::<()>::new(1);
        let busy = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.pop_while(|| busy.load(std::sync::atomic::Ordering::SeqCst)));
            busy.store(false, std::sync::atomic::Ordering::SeqCst);
            queue.look_again();
            assert_eq!(waiting.join().unwrap(), None);
        });
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
