//! Callers that work at the same time, and how much they do per second.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use crate::{Callers, Contender, Result};

/// What so many callers do per second. Each repeats `work`, which tells how much it did, until the time is over or nothing
/// is left to do.
pub(crate) async fn rate<C, W, F>(callers: usize, time: Duration, work: W) -> Result<f64>
where
    C: Contender,
    W: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<usize>> + Send + 'static,
{
    let began = Instant::now();
    let caller = move |number| {
        let work = work.clone();
        async move {
            let mut done = 0;
            while began.elapsed() < time {
                match work(number).await? {
                    0 => break,
                    more => done += more,
                }
            }
            anyhow::Ok(done)
        }
    };
    let mut done = 0;
    match C::CALLERS {
        Callers::Tasks => {
            let tasks: Vec<_> = (0..callers).map(|number| tokio::spawn(caller(number))).collect();
            for task in tasks {
                done += task.await??;
            }
        }
        Callers::Threads => {
            let threads: Vec<_> = (0..callers)
                .map(|number| {
                    let caller = caller.clone();
                    thread::spawn(move || block_on(caller(number)))
                })
                .collect();
            for thread in threads {
                done += thread.join().expect("a caller does not panic")?;
            }
        }
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Runs in the background until the process ends.
pub(crate) fn spawn<C: Contender>(work: impl Future<Output = ()> + Send + 'static) {
    match C::CALLERS {
        Callers::Tasks => drop(tokio::spawn(work)),
        Callers::Threads => drop(thread::spawn(|| block_on(work))),
    }
}

/// Runs a future whose calls block, on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
