//! What observers saw of a history, compared with what memory's saw.

use esker_nostr::EventId;

use super::{run::Verdict, step::short};
use crate::world::{Log, Seen};

/// Memory's changes, each with the handle on which the engine was asked for it.
#[derive(Default)]
pub(crate) struct Expected(Vec<(usize, Seen)>);

impl Expected {
    /// Takes over what memory told since the last time; it tells before it answers.
    pub(crate) fn add(&mut self, handle: usize, log: &Log) {
        let new = log.wait(0).split_off(self.0.len());
        self.0.extend(new.into_iter().map(|seen| (handle, seen)));
    }
}

/// One handle's observer saw exactly what memory's saw. With two handles it is the engine's affair how much of the
/// other's changes each one tells: all of its own at least, and nothing that did not happen.
pub(crate) fn compare(logs: &[Vec<Seen>], Expected(expected): &Expected) -> Verdict {
    for (handle, log) in logs.iter().enumerate() {
        let offsets: Vec<i64> = log
            .iter()
            .filter_map(|seen| match seen {
                Seen::Accepted(_, offset) => *offset,
                Seen::Removed(_) => None,
            })
            .collect();
        if !offsets.is_sorted_by(|a, b| a < b) {
            return Err(format!("offsets do not increase: {offsets:?}"));
        }
        let log = told(log.iter().copied());
        let all = told(expected.iter().map(|(_, seen)| *seen));
        let own = told(
            expected
                .iter()
                .filter(|(by, _)| *by == handle)
                .map(|(_, seen)| *seen),
        );
        let right = if logs.len() == 1 {
            log == all
        } else {
            within(&own, &log) && within(&log, &all)
        };
        if !right {
            return Err(format!(
                "observer {handle} saw\n  {}\nmemory's\n  {}",
                text(&log),
                text(&all)
            ));
        }
    }
    Ok(())
}

/// A change without its offset, whose number is the engine's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Removed(EventId),
    Ephemeral(EventId),
    Stored(EventId),
}

/// Removals that come together are in no particular order.
fn told(seen: impl Iterator<Item = Seen>) -> Vec<Told> {
    let mut told: Vec<Told> = seen
        .map(|seen| match seen {
            Seen::Removed(id) => Told::Removed(id),
            Seen::Accepted(id, None) => Told::Ephemeral(id),
            Seen::Accepted(id, Some(_)) => Told::Stored(id),
        })
        .collect();
    for run in told.chunk_by_mut(|a, b| matches!((a, b), (Told::Removed(_), Told::Removed(_)))) {
        run.sort_unstable();
    }
    told
}

/// Whether all accepted events of `part` are in `whole` in the same order, and all its removals at all.
fn within(part: &[Told], whole: &[Told]) -> bool {
    let accepted = |told: &&Told| !matches!(told, Told::Removed(_));
    let mut rest = whole.iter().filter(accepted);
    let in_order = part
        .iter()
        .filter(accepted)
        .all(|told| rest.any(|other| other == told));
    let count = |list: &[Told], told: &Told| list.iter().filter(|other| *other == told).count();
    in_order && part.iter().all(|told| count(part, told) <= count(whole, told))
}

fn text(told: &[Told]) -> String {
    let word = |told: &Told| match told {
        Told::Removed(id) => format!("-{}", short(*id)),
        Told::Ephemeral(id) => format!("~{}", short(*id)),
        Told::Stored(id) => format!("+{}", short(*id)),
    };
    told.iter().map(word).collect::<Vec<_>>().join(" ")
}
