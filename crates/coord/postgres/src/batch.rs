//! Group commit: what callers ask one by one goes to the server together, as one statement and one commit.

use std::{future::Future, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{Error, shared::Shared};

/// Batches of one kind on their way at a time: one commits while the next is written.
const IN_FLIGHT: usize = 2;

/// One caller's part of a batch.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// What the caller gets.
    type Answer: Send;

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
pub(crate) struct Batcher<W: Work>(mpsc::Sender<Ask<W>>);

impl<W: Work> Batcher<W> {
    /// Ends when it is dropped and what was submitted is answered.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let (sender, receiver) = mpsc::channel(shared.options.waiting);
        shared.runtime.spawn(collect(shared.clone(), receiver));
        Self(sender)
    }

    /// Waits for a place and for the answer. Dropping it then loses the answer only (CX-10).
    pub(crate) async fn submit(&self, work: W, entry: OwnedSemaphorePermit) -> Result<W::Answer, Error> {
        let (caller, answer) = oneshot::channel();
        let ask = Ask {
            work,
            caller,
            _entry: entry,
        };
        self.0.send(ask).await.map_err(|_| Error::Closed)?;
        answer.await.unwrap_or(Err(Error::Lost))
    }
}

async fn collect<W: Work>(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Ask<W>>) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    loop {
        let slot = slots
            .clone()
            .acquire_owned()
            .await
            .expect("the slots are never closed");
        let Some(first) = waiting.recv().await else { return };
        // Whoever was answered just now may ask again at once.
        tokio::task::yield_now().await;
        let (mut weight, mut batch) = (first.work.weight(), vec![first]);
        while weight < shared.options.max_batch
            && let Ok(ask) = waiting.try_recv()
        {
            weight = weight.saturating_add(ask.work.weight());
            batch.push(ask);
        }
        let shared = shared.clone();
        shared.runtime.clone().spawn(async move {
            run(&shared, batch).await;
            drop(slot);
        });
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
