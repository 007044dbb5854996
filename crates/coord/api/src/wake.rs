//! Wakes: hints to read again, and who waits for them (CW-01 to CW-06).

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::future::{Either, select};

use crate::{Error, Name, Result, clock::sleep, name::RESERVED};

/// The channel of the wake that every receiver gets after wakes may have been lost, as with a connection (CW-03).
pub const RECONNECTED: &str = "__alkstore_listener_reconnected__";

/// What a wake is about.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(Arc<str>);

impl Channel {
    /// A channel that callers notify.
    pub fn notify(name: &Name) -> Self {
        Self(name.as_str().into())
    }

    /// The channel that each committed publish to this stream wakes (CW-05).
    pub fn stream(name: &Name) -> Self {
        Self(format!("{RESERVED}stream:{name}").into())
    }

    /// The channel that each committed enqueue to this queue wakes (CW-05).
    pub fn queue(name: &Name) -> Self {
        Self(format!("{RESERVED}queue:{name}").into())
    }

    /// The channel that is woken when schedules change or their runner gives way.
    pub fn schedules() -> Self {
        Self(format!("{RESERVED}schedules").into())
    }

    /// The channel that giving back this lock wakes, if there is one: that of the schedules, whose runners wait for
    /// theirs (CD-02).
    pub fn released(lock: &Name) -> Option<Self> {
        (*lock == Name::scheduler()).then(Self::schedules)
    }

    /// The channel whose text is this, as [`as_str`](Self::as_str) gave it in some process.
    pub fn of_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text by which processes tell each other of the channel.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A hint to read again; never data (CW-02). Wakes may be merged and may repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// The channel that was woken, or [`RECONNECTED`].
    pub channel: String,
}

/// Who listens in this process. An engine has one, and wakes it after its commits and for what it hears of others.
#[derive(Clone, Default)]
pub struct WakeHub(Arc<Mutex<Hub>>);

#[derive(Default)]
struct Hub {
    listeners: HashMap<Channel, Vec<Arc<Cell>>>,
    closed: bool,
}

/// One receiver's state: wakes that were not received yet are one.
#[derive(Default)]
struct Cell(Mutex<State>);

#[derive(Default)]
struct State {
    woken: bool,
    reconnected: bool,
    closed: bool,
    waiter: Option<Waker>,
}

impl WakeHub {
    /// A hub with nobody listening.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens from now on.
    pub fn listen(&self, channel: Channel) -> WakeReceiver {
        let cell = Arc::new(Cell::default());
        {
            let mut hub = lock(&self.0);
            if hub.closed {
                lock(&cell.0).closed = true;
            } else {
                hub.listeners
                    .entry(channel.clone())
                    .or_default()
                    .push(cell.clone());
            }
        }
        WakeReceiver {
            hub: self.clone(),
            channel,
            cell,
        }
    }

    /// Whether anybody listens to this channel.
    pub fn is_heard(&self, channel: &Channel) -> bool {
        lock(&self.0).listeners.contains_key(channel)
    }

    /// Whether anybody listens at all.
    pub fn has_listeners(&self) -> bool {
        !lock(&self.0).listeners.is_empty()
    }

    /// Wakes who listens to this channel.
    pub fn wake(&self, channel: &Channel) {
        let cells = lock(&self.0).listeners.get(channel).cloned();
        for cell in cells.into_iter().flatten() {
            cell.change(|state| state.woken = true);
        }
    }

    /// Wakes everybody, because wakes may have been lost: each receives [`RECONNECTED`].
    pub fn wake_all(&self) {
        for cell in self.all() {
            cell.change(|state| state.reconnected = true);
        }
    }

    /// Ends every receiver, now and in future: the source has died.
    pub fn close(&self) {
        let cells = {
            let mut hub = lock(&self.0);
            hub.closed = true;
            std::mem::take(&mut hub.listeners)
        };
        for cell in cells.into_values().flatten() {
            cell.change(|state| state.closed = true);
        }
    }

    fn all(&self) -> Vec<Arc<Cell>> {
        lock(&self.0).listeners.values().flatten().cloned().collect()
    }
}

impl fmt::Debug for WakeHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeHub")
            .field("channels", &lock(&self.0).listeners.len())
            .finish_non_exhaustive()
    }
}

impl Cell {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let waiter = {
            let mut state = lock(&self.0);
            change(&mut state);
            state.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl State {
    /// The next wake, of this channel; [`Error::Closed`] after the last.
    fn take(&mut self, channel: &Channel) -> Result<Option<Wake>> {
        let text = if std::mem::take(&mut self.reconnected) {
            // It says all that a wake says.
            self.woken = false;
            RECONNECTED
        } else if std::mem::take(&mut self.woken) {
            channel.as_str()
        } else if self.closed {
            return Err(Error::Closed);
        } else {
            return Ok(None);
        };
        Ok(Some(Wake {
            channel: text.to_owned(),
        }))
    }
}

/// The receiving end of [`listen`](crate::Store::listen). Wakes that wait are merged, so a receiver that is not asked
/// costs nothing.
pub struct WakeReceiver {
    hub: WakeHub,
    channel: Channel,
    cell: Arc<Cell>,
}

impl WakeReceiver {
    /// The next wake; `None` is the end: the source has died, or the store was closed (CW-03).
    pub async fn recv(&mut self) -> Option<Wake> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// A wake that waits; `Ok(None)` when there is none, [`Error::Closed`] at the end (CW-03).
    pub fn try_recv(&mut self) -> Result<Option<Wake>> {
        lock(&self.cell.0).take(&self.channel)
    }

    /// The next wake, if it comes in time; `Ok(None)` when it does not, [`Error::Closed`] at the end (CW-03).
    pub async fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Wake>> {
        let received = select(Box::pin(self.recv()), Box::pin(sleep(timeout))).await;
        match received {
            Either::Left((Some(wake), _)) => Ok(Some(wake)),
            Either::Left((None, _)) => Err(Error::Closed),
            Either::Right(_) => Ok(None),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Wake>> {
        let mut state = lock(&self.cell.0);
        match state.take(&self.channel) {
            Ok(Some(wake)) => Poll::Ready(Some(wake)),
            Ok(None) => {
                state.waiter = Some(cx.waker().clone());
                Poll::Pending
            }
            Err(_) => Poll::Ready(None),
        }
    }
}

impl Drop for WakeReceiver {
    fn drop(&mut self) {
        let mut hub = lock(&self.hub.0);
        if let Some(cells) = hub.listeners.get_mut(&self.channel) {
            cells.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
            if cells.is_empty() {
                hub.listeners.remove(&self.channel);
            }
        }
    }
}

impl fmt::Debug for WakeReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeReceiver")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// What these mutexes guard is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str) -> Channel {
        Channel::notify(&Name::new(name).unwrap())
    }

    #[tokio::test]
    async fn cw_02_wakes_that_wait_are_one_and_of_their_channel() {
        let hub = WakeHub::new();
        let mut a = hub.listen(channel("a"));
        let mut b = hub.listen(channel("b"));
        hub.wake(&channel("a"));
        hub.wake(&channel("a"));
        assert_eq!(a.recv().await, Some(Wake { channel: "a".into() }));
        assert_eq!(a.try_recv().unwrap(), None);
        assert_eq!(b.try_recv().unwrap(), None);
    }

    #[tokio::test]
    async fn cw_03_the_end_is_told_apart_from_silence() {
        let hub = WakeHub::new();
        let mut receiver = hub.listen(channel("a"));
        assert_eq!(receiver.recv_timeout(Duration::ZERO).await.unwrap(), None);
        hub.wake(&channel("a"));
        hub.close();
        // What waited is received first.
        assert!(receiver.recv().await.is_some());
        assert_eq!(receiver.recv().await, None);
        assert!(matches!(receiver.try_recv(), Err(Error::Closed)));
        assert!(matches!(
            receiver.recv_timeout(Duration::MAX).await,
            Err(Error::Closed)
        ));
        assert_eq!(hub.listen(channel("b")).recv().await, None);
    }

    #[tokio::test]
    async fn cw_03_after_lost_wakes_everybody_is_woken() {
        let hub = WakeHub::new();
        let mut receiver = hub.listen(channel("a"));
        hub.wake(&channel("a"));
        hub.wake_all();
        assert_eq!(receiver.recv().await.unwrap().channel, RECONNECTED);
        assert_eq!(receiver.try_recv().unwrap(), None);
    }

    #[tokio::test]
    async fn cw_03_a_waiting_receiver_is_woken() {
        let hub = WakeHub::new();
        let mut receiver = hub.listen(channel("a"));
        let waiting = tokio::spawn(async move { receiver.recv().await });
        tokio::task::yield_now().await;
        hub.wake(&channel("a"));
        assert!(waiting.await.unwrap().is_some());
        assert!(!hub.has_listeners());
    }

    #[test]
    fn cw_06_a_dropped_receiver_leaves_nothing() {
        let hub = WakeHub::new();
        let one = hub.listen(channel("a"));
        let two = hub.listen(channel("a"));
        drop(one);
        assert!(hub.is_heard(&channel("a")));
        drop(two);
        assert!(!hub.is_heard(&channel("a")) && !hub.has_listeners());
    }

    #[test]
    fn cw_05_channels_of_the_store_are_out_of_reach() {
        let orders = Name::new("orders").unwrap();
        let channels = [
            Channel::notify(&orders),
            Channel::stream(&orders),
            Channel::queue(&orders),
            Channel::schedules(),
        ];
        for (i, one) in channels.iter().enumerate() {
            assert!(channels[i + 1..].iter().all(|other| other != one));
            assert_eq!(i != 0, Name::new(one.as_str()).is_err(), "{one:?}");
        }
    }

    #[test]
    fn cd_02_only_the_lock_of_the_schedules_wakes_who_waits_for_it() {
        let schedules = Channel::released(&Name::scheduler());
        assert_eq!(schedules, Some(Channel::schedules()));
        assert_eq!(Channel::released(&Name::new("scheduler").unwrap()), None);
    }
}
