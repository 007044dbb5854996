//! Transactions: changes that are kept aside, and made to the shared state in one step.
//!
//! Nothing that a transaction can do fails or depends on what others do meanwhile, so nobody waits for it, but who asks for
//! the offset of the same consumer (CS-06).

use std::{future::ready, sync::Arc};

use esker_coord_api::{
    BoxFuture, Channel, Cursor, EngineTransaction, Error, Job, LocalName, Name, NewEvent, NewJob, Payload,
    Result, StreamEvent,
};

use crate::{
    jobs::stored,
    keeps::{Keeper, crosswise},
    state::{Shared, State},
};

/// A change that is made to what there is when it is made.
type Change = Box<dyn Fn(&mut State) + Send>;

pub(crate) struct MemoryTransaction {
    shared: Arc<Shared>,
    /// Keeps consumers that nobody else may ask for until the end.
    keeper: Keeper,
    /// It was rolled back, rather than wait for ever.
    rolled_back: bool,
    changes: Vec<Change>,
    wakes: Vec<Channel>,
}

impl MemoryTransaction {
    pub(crate) fn new(shared: Arc<Shared>, handle: u64) -> Self {
        Self {
            keeper: shared.keeps.keeper(handle),
            shared,
            rolled_back: false,
            changes: Vec::new(),
            wakes: Vec::new(),
        }
    }

    fn check(&self) -> Result<()> {
        if self.rolled_back {
            Err(crosswise())
        } else if self.shared.is_attached(self.keeper.handle) {
            Ok(())
        } else {
            Err(Error::Closed)
        }
    }

    fn keep(&mut self, wake: Option<Channel>, change: impl Fn(&mut State) + Send + 'static) -> Result<()> {
        self.check()?;
        self.changes.push(Box::new(change));
        self.wakes.extend(wake);
        Ok(())
    }

    /// Reads what is committed by now, with the own changes.
    fn view<T>(&self, view: impl FnOnce(&State) -> T) -> Result<T> {
        self.check()?;
        let mut state = self.shared.state().clone();
        self.apply(&mut state);
        Ok(view(&state))
    }

    async fn hold(&mut self, stream: &Name, consumer: &LocalName) -> Result<()> {
        let consumer = (stream.clone(), consumer.clone());
        self.check()?;
        let (shared, keeper) = (&self.shared, self.keeper);
        let is_open = || shared.is_attached(keeper.handle);
        let kept = shared.keeps.keep(keeper, consumer, is_open).await;
        if kept.is_err() {
            shared.keeps.release(keeper);
            self.rolled_back = is_open();
        }
        kept
    }

    fn apply(&self, state: &mut State) {
        for change in &self.changes {
            change(state);
        }
    }
}

impl EngineTransaction for MemoryTransaction {
    fn enqueue(&mut self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        let now = self.shared.clock.now();
        let wake = Channel::queue(&queue);
        let jobs: Vec<Job> = {
            let mut state = self.shared.state();
            let jobs = jobs.into_iter();
            // The ids are taken whether or not the transaction commits.
            jobs.map(|job| stored(state.jobs.next_id(), queue.clone(), job, now))
                .collect()
        };
        let ids = jobs.iter().map(|job| job.id).collect();
        let kept = self.keep(Some(wake), move |state| {
            for job in &jobs {
                state.jobs.insert(job.clone());
            }
        });
        Box::pin(ready(kept.map(|()| ids)))
    }

    fn publish(&mut self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<()>> {
        let now = self.shared.clock.now();
        let wake = Channel::stream(&stream);
        let kept = self.keep(Some(wake), move |state| {
            for event in &events {
                state.streams.publish(&stream, event.clone(), now);
            }
        });
        Box::pin(ready(kept))
    }

    fn notify(&mut self, channel: Name, _payload: Payload) -> BoxFuture<'_, Result<()>> {
        Box::pin(ready(self.keep(Some(Channel::notify(&channel)), |_| ())))
    }

    fn save_offset(&mut self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        let kept = self.keep(None, move |state| {
            state.streams.save_offset(&stream, consumer.clone(), offset);
        });
        Box::pin(ready(kept))
    }

    fn get_offset(&mut self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        Box::pin(async move {
            self.hold(&stream, &consumer).await?;
            self.view(|state| state.streams.offset(&stream, &consumer))
        })
    }

    fn get_job(&mut self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        Box::pin(ready(self.view(|state| state.jobs.get(&queue, id).cloned())))
    }

    fn read(&mut self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        Box::pin(async move {
            if let Cursor::Saved(consumer) = &from {
                self.hold(&stream, consumer).await?;
            }
            self.view(|state| state.streams.read(&stream, &from, limit))
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        let committed = self.check();
        if committed.is_ok() {
            self.apply(&mut self.shared.state());
            self.shared.wake(&self.wakes);
        }
        Box::pin(ready(committed))
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        self.shared.keeps.release(self.keeper);
    }
}
