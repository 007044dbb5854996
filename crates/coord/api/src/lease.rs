//! What is held for a time and renewed meanwhile: a lock, or the claim of a job.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, select_biased};

use crate::{
    Error, Outcome, Result,
    clock::{LONGEST, sleep},
    pause::Pause,
};

/// Until when something may be held, by this process's own time.
pub(crate) struct Lease {
    /// When it must be given up, unless it is renewed before.
    give_up: Instant,
    /// How long it is until the first renewal.
    first: Duration,
    /// How long after one the next one is.
    interval: Duration,
    /// How long after one it is given up.
    bound: Duration,
}

/// How long a process that was halted asks once more for what it must have given up by now.
const ONCE_MORE: Duration = Duration::from_secs(1);

impl Lease {
    pub(crate) fn new(give_up: Instant, interval: Duration, bound: Duration) -> Self {
        let interval = interval.min(LONGEST);
        Self {
            give_up,
            first: interval,
            interval,
            bound: bound.min(LONGEST),
        }
    }

    /// Renews at once: what it was taken for may be over before the interval.
    pub(crate) fn at_once(self) -> Self {
        Self {
            first: Duration::ZERO,
            ..self
        }
    }

    /// Whether it must be given up.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.give_up
    }

    /// Renews again and again, and sooner where that failed. `Ok` when it is lost; the error when it was not renewed until it
    /// must be given up, however long the store takes to answer.
    pub(crate) async fn keep<F: Future<Output = Result<bool>>>(
        &mut self,
        renew: impl Fn() -> F,
        failed: impl Fn(&Error),
    ) -> Result<()> {
        self.keep_by(&RealTime, renew, failed).await
    }

    async fn keep_by<F: Future<Output = Result<bool>>>(
        &mut self,
        time: &impl Time,
        renew: impl Fn() -> F,
        failed: impl Fn(&Error),
    ) -> Result<()> {
        let mut wait = self.first;
        loop {
            time.sleep(wait).await;
            let once_more = time.now() + ONCE_MORE.min(self.interval / 2);
            let until = self.give_up.max(once_more);
            match renewed(time, until, self.interval, &renew, &failed).await? {
                Some(asked) => self.give_up = asked + self.bound,
                None => return Ok(()),
            }
            wait = self.interval;
        }
    }
}

/// Renews once, and tries that until then; gives when it was asked for, or `None` when what was held is lost.
async fn renewed<F: Future<Output = Result<bool>>>(
    time: &impl Time,
    until: Instant,
    interval: Duration,
    renew: &impl Fn() -> F,
    failed: &impl Fn(&Error),
) -> Result<Option<Instant>> {
    let mut pause = Pause::default();
    let mut last = Error::database("it did not answer in time", Outcome::Unknown);
    loop {
        let asked = time.now();
        let left = until.saturating_duration_since(asked);
        let renewal = select_biased! {
            renewal = pin!(renew().fuse()) => renewal,
            () = pin!(time.sleep(left).fuse()) => return Err(last),
        };
        match renewal {
            Ok(held) => return Ok(held.then_some(asked)),
            Err(error @ Error::Database { .. }) => {
                failed(&error);
                last = error;
            }
            Err(error) => return Err(error),
        }
        let left = until.saturating_duration_since(time.now());
        if left.is_zero() {
            return Err(last);
        }
        time.sleep(pause.next().min(interval).min(left)).await;
    }
}

/// What time it is, and how it goes by.
trait Time {
    fn now(&self) -> Instant;
    fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send;
}

struct RealTime;

impl Time for RealTime {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send {
        sleep(length)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        future::{pending, ready},
        sync::Mutex,
    };

    use futures_util::future::Either;

    use super::*;

    /// A time that goes by as it is slept.
    struct Slept(Mutex<Instant>);

    impl Time for Slept {
        fn now(&self) -> Instant {
            *self.0.lock().unwrap()
        }

        async fn sleep(&self, length: Duration) {
            *self.0.lock().unwrap() += length;
        }
    }

    /// Keeps what answers so, renewed at each third of 30 s, and tells how that ended and after how long.
    fn kept(answer: impl Fn(u32) -> Option<Result<bool>>) -> (Result<()>, Duration) {
        let begun = Instant::now();
        let time = Slept(Mutex::new(begun));
        let third = Duration::from_secs(10);
        let mut lease = Lease::new(begun + 2 * third, third, 2 * third).at_once();
        let asked = Cell::new(0);
        let renew = || {
            asked.set(asked.get() + 1);
            match answer(asked.get()) {
                Some(answer) => Either::Left(ready(answer)),
                None => Either::Right(pending()),
            }
        };
        let kept = lease.keep_by(&time, renew, |_| ()).now_or_never();
        (kept.expect("no sleep takes time"), time.now() - begun)
    }

    fn failure() -> Result<bool> {
        Err(Error::database("scripted", Outcome::Aborted))
    }

    #[test]
    fn cl_02_what_fails_is_given_up_at_two_thirds_of_the_ttl() {
        let (ended, after) = kept(|_| Some(failure()));
        assert!(matches!(ended, Err(Error::Database { .. })));
        assert_eq!(after.as_secs(), 20);
    }

    #[test]
    fn cl_02_what_does_not_answer_is_given_up_at_two_thirds_of_the_ttl_failed_or_not() {
        for failures in [0, 3, 5, 10] {
            let (ended, after) = kept(|asked| (asked <= failures).then(failure));
            assert!(matches!(ended, Err(Error::Database { .. })));
            assert_eq!(after.as_secs(), 20, "{failures}");
        }
    }

    #[test]
    fn cl_02_each_renewal_counts_anew() {
        let (ended, after) = kept(|asked| match asked {
            1..=10 | 15 => Some(Ok(true)),
            11..=14 => Some(failure()),
            _ => Some(Ok(false)),
        });
        ended.unwrap();
        // At once, and then at each third; the tries again take little.
        assert_eq!(after.as_secs(), 11 * 10);
    }

    #[test]
    fn cl_02_what_is_over_is_asked_for_once_more_and_no_longer() {
        let begun = Instant::now();
        let time = Slept(Mutex::new(begun));
        let mut lease = Lease::new(begun, Duration::from_secs(10), Duration::from_secs(20)).at_once();
        let kept = lease
            .keep_by(&time, pending::<Result<bool>>, |_| ())
            .now_or_never();
        assert!(kept.expect("no sleep takes time").is_err());
        assert_eq!(time.now() - begun, ONCE_MORE);
    }
}
