//! Group commit: what callers ask one by one goes to the server together, as one statement and one commit.

use std::{
    collections::VecDeque,
    future::Future,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{Error, shared::Shared};

/// One caller's part of a batch.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// What the caller gets.
    type Answer: Send;

    /// Batches of this kind on their way at a time: with two, one commits while the next is written; with one, more gather
    /// for the next.
    const IN_FLIGHT: usize;

    /// How much of a batch it fills, of [`Options::max_batch`](crate::Options::max_batch).
    fn weight(&self) -> usize;

    /// Does all of it in one transaction, and gives each its answer, in order.
    fn run(shared: &Shared, works: &[&Self])
    -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

struct Ask<W: Work> {
    work: W,
    caller: oneshot::Sender<Result<W::Answer, Error>>,
    /// Until it is answered, the store is not closed.
    _entry: OwnedSemaphorePermit,
}

/// Collects works of one kind while earlier ones are on their way.
pub(crate) struct Batcher<W: Work>(Arc<Line<W>>);

struct Line<W: Work> {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    queue: Mutex<Queue<W>>,
}

struct Queue<W: Work> {
    /// Each takes one of the places until it is on its way.
    waiting: VecDeque<(Ask<W>, OwnedSemaphorePermit)>,
    in_flight: usize,
}

impl<W: Work> Batcher<W> {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::new(Line {
            shared: shared.clone(),
            places: Arc::new(Semaphore::new(shared.options.waiting)),
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                in_flight: 0,
            }),
        }))
    }

    /// Waits for a place and for the answer. Dropping it then loses the answer only (CX-10).
    pub(crate) async fn submit(&self, work: W, entry: OwnedSemaphorePermit) -> Result<W::Answer, Error> {
        let line = &self.0;
        let place = line.places.clone().acquire_owned().await;
        let place = place.expect("the places are never closed");
        let (caller, answer) = oneshot::channel();
        let ask = Ask {
            work,
            caller,
            _entry: entry,
        };
        line.queue().waiting.push_back((ask, place));
        line.start();
        answer.await.unwrap_or(Err(Error::Lost))
    }
}

impl<W: Work> Line<W> {
    /// Sends a batch on its way, where something waits and not enough are.
    fn start(self: &Arc<Self>) {
        let mut queue = self.queue();
        if queue.waiting.is_empty() || queue.in_flight == W::IN_FLIGHT {
            return;
        }
        queue.in_flight += 1;
        drop(queue);
        let mut slot = Slot {
            line: self.clone(),
            begun: false,
        };
        self.shared.runtime.spawn(async move {
            slot.begun = true;
            // Whoever was answered just now may ask again at once.
            tokio::task::yield_now().await;
            let batch = slot.line.take();
            if !batch.is_empty() {
                run(&slot.line.shared, batch).await;
            }
        });
    }

    fn take(&self) -> Vec<Ask<W>> {
        let mut queue = self.queue();
        let (mut weight, mut batch) = (0_usize, Vec::new());
        while weight < self.shared.options.max_batch
            && let Some((ask, _place)) = queue.waiting.pop_front()
        {
            weight = weight.saturating_add(ask.work.weight());
            batch.push(ask);
        }
        batch
    }

    /// What it guards is whole at every moment.
    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the batches in flight, however it ends.
struct Slot<W: Work> {
    line: Arc<Line<W>>,
    begun: bool,
}

impl<W: Work> Drop for Slot<W> {
    fn drop(&mut self) {
        let mut queue = self.line.queue();
        queue.in_flight -= 1;
        if self.begun {
            drop(queue);
            self.line.start();
        } else {
            // The runtime has ended and begins nothing any more: who waits is told so.
            let lost = mem::take(&mut queue.waiting);
            drop(queue);
            drop(lost);
        }
    }
}

async fn run<W: Work>(shared: &Shared, batch: Vec<Ask<W>>) {
    let works: Vec<&W> = batch.iter().map(|ask| &ask.work).collect();
    shared.stats.batches.add();
    match W::run(shared, &works).await {
        Ok(answers) => {
            debug_assert_eq!(answers.len(), batch.len());
            for (ask, answer) in batch.into_iter().zip(answers) {
                let _gone = ask.caller.send(Ok(answer));
            }
        }
        // One caller's bad value is not the others' failure.
        Err(error) if batch.len() > 1 && error.is_of_one_element() => {
            for ask in batch {
                let alone = W::run(shared, &[&ask.work]).await;
                let alone = alone.map(|mut answers| answers.pop().expect("each work has an answer"));
                let _gone = ask.caller.send(alone);
            }
        }
        Err(error) => {
            for ask in batch {
                let _gone = ask.caller.send(Err(error.clone()));
            }
        }
    }
}
