//! The one clock of a store, in whole unix seconds (CX-04); tests drive it.

use std::{
    fmt,
    future::{Future, poll_fn},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_timer::Delay;

use crate::BoxFuture;

/// Where a store's time comes from. One operation reads it once.
#[derive(Clone)]
pub struct Clock(Option<Arc<Mutex<Manual>>>);

struct Manual {
    now: i64,
    ticks: bool,
    sleepers: Vec<Waker>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands at `now` until it is set: for tests. Clones share it.
    pub fn manual(now: i64) -> Self {
        Self(Some(Arc::new(Mutex::new(Manual {
            now,
            ticks: false,
            sleepers: Vec::new(),
        }))))
    }

    /// Sets a manual clock, and wakes who sleeps by it; the system's is not settable and stays as it is.
    pub fn set(&self, now: i64) {
        self.change(|_| now);
    }

    /// Moves a manual clock forward, saturating.
    pub fn advance(&self, seconds: i64) {
        self.change(|now| now.saturating_add(seconds));
    }

    /// From now on each reading moves a manual clock on by a second, for tests that look how often it is read. That wakes
    /// nobody who sleeps by it.
    pub fn tick(&self) {
        if let Some(manual) = &self.0 {
            lock(manual).ticks = true;
        }
    }

    /// Now, in unix seconds.
    pub fn now(&self) -> i64 {
        match &self.0 {
            Some(manual) => {
                let mut manual = lock(manual);
                let now = manual.now;
                manual.now = now.saturating_add(i64::from(manual.ticks));
                now
            }
            None => i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX),
        }
    }

    /// Resolves when the clock shows `at` or later. When the system's clock jumps forward, as after a suspend, at most 2 s
    /// late.
    pub fn sleep_until(&self, at: i64) -> BoxFuture<'static, ()> {
        let Some(manual) = self.0.clone() else {
            let at = Duration::from_secs(u64::try_from(at).unwrap_or(0));
            return Box::pin(sleep_in_slices(at, since_epoch, sleep));
        };
        Box::pin(poll_fn(move |cx| {
            let mut manual = lock(&manual);
            if manual.now >= at {
                return Poll::Ready(());
            }
            manual.sleepers.retain(|sleeper| !sleeper.will_wake(cx.waker()));
            manual.sleepers.push(cx.waker().clone());
            Poll::Pending
        }))
    }

    fn change(&self, change: impl FnOnce(i64) -> i64) {
        if let Some(manual) = &self.0 {
            let sleepers = {
                let mut manual = lock(manual);
                manual.now = change(manual.now);
                std::mem::take(&mut manual.sleepers)
            };
            for sleeper in sleepers {
                sleeper.wake();
            }
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(_) => write!(f, "Clock::manual({})", self.now()),
            None => f.write_str("Clock::system()"),
        }
    }
}

/// Longer than any timer can hold is as good as for ever.
pub(crate) const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Resolves after `wait` of real time, on a timer that needs no runtime.
pub async fn sleep(wait: Duration) {
    Delay::new(wait.min(LONGEST)).await;
}

/// Sleeps until the clock shows `at`. A timer knows nothing of a clock that is set forward or back, nor of the time that
/// the machine was suspended, and may be early; so the clock is looked at again after each slice.
async fn sleep_in_slices<F: Future>(at: Duration, now: impl Fn() -> Duration, sleep: impl Fn(Duration) -> F) {
    const SLICE: Duration = Duration::from_secs(2);
    while let Some(left) = at.checked_sub(now()).filter(|left| !left.is_zero()) {
        sleep(left.min(SLICE)).await;
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What it guards is whole at every moment.
fn lock(manual: &Mutex<Manual>) -> MutexGuard<'_, Manual> {
    manual.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::ready, pin::pin};

    use futures_util::{FutureExt, poll};

    use super::*;

    #[tokio::test]
    async fn cx_04_a_manual_clock_stands_until_it_is_set_and_wakes_who_sleeps_by_it() {
        let clock = Clock::manual(100);
        assert_eq!((clock.now(), clock.clone().now()), (100, 100));
        let mut sleep = pin!(clock.sleep_until(110));
        assert!(poll!(&mut sleep).is_pending());
        clock.advance(9);
        assert!(poll!(&mut sleep).is_pending());
        let waits = tokio::spawn(clock.sleep_until(110));
        clock.set(110);
        sleep.await;
        waits.await.unwrap();
        clock.advance(i64::MAX);
        assert_eq!(clock.now(), i64::MAX);
        clock.set(7);
        clock.tick();
        assert_eq!((clock.now(), clock.now(), clock.clone().now()), (7, 8, 9));
    }

    #[tokio::test]
    async fn cx_04_the_system_clock_does_not_sleep_for_what_has_passed() {
        let clock = Clock::system();
        clock.sleep_until(clock.now()).await;
        clock.sleep_until(i64::MIN).await;
        clock.set(5);
        assert!(clock.now() > 1_700_000_000);
    }

    const HOUR: u64 = 3600;

    /// Sleeps an hour by a clock that moves with each sleep as `moves` tells, and gives the lengths of the sleeps.
    fn slept(moves: impl Fn(usize, Duration) -> i64) -> Vec<Duration> {
        let (now, slept) = (RefCell::new(5 * HOUR), RefCell::new(Vec::new()));
        let sleep = |length| {
            let seconds = moves(slept.borrow().len(), length);
            slept.borrow_mut().push(length);
            let shows = now.borrow().saturating_add_signed(seconds);
            *now.borrow_mut() = shows;
            ready(())
        };
        let at = Duration::from_secs(6 * HOUR);
        let slices = sleep_in_slices(at, || Duration::from_secs(*now.borrow()), sleep);
        slices.now_or_never().expect("no sleep of this clock takes time");
        slept.into_inner()
    }

    fn seconds(length: Duration) -> i64 {
        i64::try_from(length.as_secs()).unwrap()
    }

    #[test]
    fn cq_07_who_sleeps_till_a_time_looks_at_the_clock_every_two_seconds() {
        let lengths = slept(|_, length| seconds(length));
        assert_eq!(lengths.len(), 1800);
        assert!(lengths.iter().all(|length| length.as_secs() == 2));
    }

    #[test]
    fn cd_02_a_clock_that_jumps_forward_is_noticed_within_a_slice() {
        // As after a suspend: the timer slept for its length, and the clock shows two hours more.
        let lengths = slept(|n, length| if n == 4 { 2 * 3600 } else { seconds(length) });
        assert_eq!(lengths.len(), 5);
    }

    #[test]
    fn cx_04_a_clock_that_is_set_back_is_slept_by_all_the_same() {
        let lengths = slept(|n, length| if n == 0 { -100 } else { seconds(length) });
        // The first slice, and then the hour and what it was set back by.
        assert_eq!(lengths.len(), 1 + 3700 / 2);
        // A timer that is early is set again.
        assert_eq!(
            slept(|n, length| if n == 0 { 0 } else { seconds(length) }).len(),
            1801
        );
    }
}
