//! What is stored, read from both sides.

use esker_coord_api::{Cursor, DeadPage, Engine, NextTime};

use super::{
    run::{Run, both, equal},
    same::{Verdict, answered, comparable, same},
    step::{CONSUMERS, QUEUES, STREAMS},
};
use crate::world::{local, name};

impl Run {
    pub(crate) async fn same_job(
        &mut self,
        handle: usize,
        queue: &str,
        (engine, memory): (i64, i64),
    ) -> Verdict {
        let engine = answered(
            "the engine",
            self.engine(handle).get_job(name(queue), engine).await,
        )?;
        let memory = answered("memory", self.memory.get_job(name(queue), memory).await)?;
        self.ids
            .same_jobs("the job", engine.into_iter().collect(), &Vec::from_iter(memory))
    }

    pub(crate) async fn same_next(&self, handle: usize, queue: &str) -> Verdict {
        let (engine, memory) = both!(self, handle, |side| side.next_ready(name(queue)));
        // What is ready may be told with the time since when it is, and the end of time is as good as never.
        let now = self.world().now();
        let at = |next: Option<NextTime>| next.map(|next| next.at.max(now)).filter(|at| *at < i64::MAX);
        same("next ready", &at(engine), &at(memory))
    }

    pub(crate) async fn same_dead(
        &mut self,
        handle: usize,
        queue: &str,
        after: (i64, i64),
        limit: i64,
    ) -> Verdict {
        let page = |after| DeadPage { after, limit };
        let engine = self.engine(handle).dead_jobs(name(queue), page(after.0)).await;
        let memory = self.memory.dead_jobs(name(queue), page(after.1)).await;
        self.ids.same_jobs(
            "dead",
            answered("the engine", engine)?,
            &answered("memory", memory)?,
        )
    }

    /// All dead jobs, a few at a time.
    async fn same_pages(&mut self, handle: usize, queue: &str) -> Verdict {
        const PAGE: i64 = 2;
        let mut after = (i64::MIN, i64::MIN);
        loop {
            self.same_dead(handle, queue, after, PAGE).await?;
            let page = DeadPage {
                after: after.1,
                limit: PAGE,
            };
            let dead = answered("memory", self.memory.dead_jobs(name(queue), page).await)?;
            let Some(last) = dead.last() else {
                return Ok(());
            };
            after = self.ids.of_memory(last.id);
        }
    }

    pub(crate) async fn same_inspection(&self, handle: usize) -> Verdict {
        let (engine, memory) = both!(self, handle, |side| side.inspect());
        same("inspection", &comparable(engine), &comparable(memory))
    }

    /// All that can be read, by each handle.
    pub(crate) async fn read_back(&mut self) -> Verdict {
        for handle in 0..self.handles.len() {
            self.read_back_by(handle).await?;
        }
        Ok(())
    }

    pub(crate) async fn read_back_by(&mut self, handle: usize) -> Verdict {
        for queue in QUEUES {
            self.same_pages(handle, queue).await?;
            self.same_next(handle, queue).await?;
            for ids in self.ids.pairs() {
                self.same_job(handle, queue, ids).await?;
            }
        }
        for stream in STREAMS {
            equal!("events", self, handle, |side| side.read(
                name(stream),
                Cursor::After(i64::MIN),
                1_000_000
            ))?;
            for consumer in CONSUMERS {
                equal!("offset", self, handle, |side| side
                    .get_offset(name(stream), local(consumer)))?;
            }
        }
        self.same_inspection(handle).await
    }
}
