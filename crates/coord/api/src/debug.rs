//! What the handles show of themselves: which thing of the store each is for, and no payload.

use std::fmt::{Debug, Formatter, Result};

use crate::{EventReceiver, JobHandle, Lock, Outbox, Queue, Store, Stream, Transaction};

impl Debug for Store {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Store").field("engine", &self.kind()).finish()
    }
}

impl Debug for Transaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Debug for Stream {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Stream")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Debug for EventReceiver {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("EventReceiver")
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl Debug for Queue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Queue")
            .field("name", &self.name())
            .field("options", &self.options())
            .finish_non_exhaustive()
    }
}

impl Debug for JobHandle {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("JobHandle")
            .field("queue", &self.job().queue)
            .field("id", &self.job().id)
            .finish_non_exhaustive()
    }
}

impl Debug for Outbox {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Outbox")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Debug for Lock {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Lock")
            .field("name", &self.name())
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}
