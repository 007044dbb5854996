//! The contract's suite on memory, and memory against itself, which keeps the comparison honest.

use std::sync::Arc;

use esker_events_api::{EventStore, Options};
use esker_events_memory::MemoryStore;
use esker_events_suite::Engine;

struct Memory(Arc<MemoryStore>);

impl Engine for Memory {
    const HAS_BUDGET: bool = false;

    async fn open(options: Options) -> Self {
        Self(Arc::new(MemoryStore::open(options)))
    }

    fn store(&self) -> Arc<dyn EventStore> {
        self.0.clone()
    }
}

esker_events_suite::suite!(Memory);
