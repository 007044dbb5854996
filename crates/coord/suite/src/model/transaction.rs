//! A transaction on both sides, part by part, and what others see meanwhile.

use esker_coord_api::{Cursor, Engine, EngineTransaction, Payload};

use super::{
    run::{Run, both},
    same::{Verdict, answered, same},
    step::{NewEventStep, NewJobStep, Part, QUEUES},
};
use crate::world::{local, name};

impl Run {
    pub(crate) async fn transaction(&mut self, handle: usize, parts: &[Part], commit: bool) -> Verdict {
        let before = self.ids.clone();
        let (mut engine, mut memory) = both!(self, handle, |side| side.begin());
        for part in parts {
            self.part(&mut *engine, &mut *memory, part).await?;
        }
        if commit {
            answered("the engine's commit", engine.commit().await)?;
            answered("memory's commit", memory.commit().await)?;
            return Ok(());
        }
        drop(engine);
        drop(memory);
        // Nothing is there, and its ids may be given again.
        for ids in self.ids.pairs().split_off(before.pairs().len()) {
            for queue in QUEUES {
                self.same_job(handle, queue, ids).await?;
            }
        }
        self.ids = before;
        Ok(())
    }

    async fn part(
        &mut self,
        engine: &mut dyn EngineTransaction,
        memory: &mut dyn EngineTransaction,
        part: &Part,
    ) -> Verdict {
        macro_rules! inside {
            (|$side:ident| $call:expr) => {{
                let $side = &mut *engine;
                let engine = answered("the engine", $call.await)?;
                let $side = &mut *memory;
                let memory = answered("memory", $call.await)?;
                (engine, memory)
            }};
        }
        match part {
            Part::Enqueue { queue, jobs } => {
                let new = || jobs.iter().map(NewJobStep::new_job).collect();
                let (engine, memory) = inside!(|side| side.enqueue(name(queue), new()));
                self.ids.given(&engine, &memory)
            }
            Part::Publish { stream, events } => {
                let new = || events.iter().map(NewEventStep::new_event).collect();
                inside!(|side| side.publish(name(stream), new()));
                Ok(())
            }
            Part::Notify => {
                inside!(|side| side.notify(name("n"), Payload::from("x")));
                Ok(())
            }
            Part::SaveOffset {
                stream,
                consumer,
                offset,
            } => {
                inside!(|side| side.save_offset(name(stream), local(consumer), *offset));
                Ok(())
            }
            Part::GetOffset { stream, consumer } => {
                let (engine, memory) = inside!(|side| side.get_offset(name(stream), local(consumer)));
                same("its own offset", &engine, &memory)
            }
            Part::GetJob { queue, job } => {
                let ids = self.ids.back(*job);
                let theirs = answered("the engine", engine.get_job(name(queue), ids.0).await)?;
                let ours = answered("memory", memory.get_job(name(queue), ids.1).await)?;
                self.ids
                    .same_jobs("its own job", theirs.into_iter().collect(), &Vec::from_iter(ours))
            }
            Part::Read { stream, after, limit } => {
                let (engine, memory) = inside!(|side| side.read(name(stream), Cursor::After(*after), *limit));
                same("its own events", &engine, &memory)
            }
            Part::ReadSaved {
                stream,
                consumer,
                limit,
            } => {
                let cursor = Cursor::Saved(local(consumer));
                let (engine, memory) = inside!(|side| side.read(name(stream), cursor.clone(), *limit));
                same("its own events", &engine, &memory)
            }
            Part::Outside { handle } => self.read_back_by(*handle).await,
        }
    }
}
