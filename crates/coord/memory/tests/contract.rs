//! The contract's suite on memory, and memory against itself, which keeps the comparison honest.

use esker_coord_api::{Clock, Store};
use esker_coord_memory::{MemoryEngine, Options};
use esker_coord_suite::Engine;

struct Memory(Store);

impl Memory {
    fn another(&self) -> Store {
        Store::new(self.0.engine::<MemoryEngine>().expect("memory").open_again())
    }
}

impl Engine for Memory {
    type Inner = MemoryEngine;
    const WRITERS_WAIT: bool = false;

    async fn open(clock: Clock) -> Self {
        Self(Store::new(MemoryEngine::open(Options { clock })))
    }

    fn store(&self) -> Store {
        self.0.clone()
    }

    async fn open_again(&self) -> Store {
        self.another()
    }

    async fn reopen(self) -> Self {
        Self(self.another())
    }
}

esker_coord_suite::suite!(Memory);
