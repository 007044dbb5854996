//! A history: what is done to a store, one step after the other, in words that a person can read.

use std::{fmt, sync::Arc, time::Duration};

use esker_events_api::{Clock, Filters, Options};
use esker_nostr::{Event, EventFields, EventId};
use esker_testing::{histories, random::Random};

use super::scene::{Profile, Scene};
use crate::{
    events::pubkey,
    world::{NOW, RELAY},
};

/// One step. `handle` is taken modulo the handles that there are.
#[derive(Clone)]
pub(crate) enum Step {
    Insert {
        handle: usize,
        events: Vec<Arc<Event>>,
    },
    Delete {
        handle: usize,
        filters: Filters,
    },
    DeleteId {
        handle: usize,
        id: EventId,
    },
    Sweep {
        handle: usize,
    },
    Clock(i64),
    /// The whole result in pages of `size`, its count, a snapshot of at most `max + 1`.
    Ask {
        handle: usize,
        filters: Filters,
        size: usize,
        max: usize,
    },
    /// Begins a query whose pages are asked for by later steps.
    Begin {
        handle: usize,
        cursor: usize,
        filters: Filters,
    },
    /// The next page of a begun query; a hasty one may end before it is full.
    Page {
        cursor: usize,
        size: usize,
        hasty: bool,
    },
    Contains {
        handle: usize,
        ids: Vec<EventId>,
    },
    Figures {
        handle: usize,
    },
    Reopen,
}

/// How many queries may be under way at once.
pub(crate) const CURSORS: usize = 2;

/// What is done, to a store with which options.
#[derive(Clone)]
pub(crate) struct History {
    options: Options,
    /// Whether everything is compared after each change, so that a fault shows where it happens; otherwise what
    /// a store keeps in memory between reads is left alone.
    pub(crate) eager: bool,
    /// Whether two handles take turns, where the engine gives a second one. With one, observers are compared exactly.
    pub(crate) two_handles: bool,
    pub(crate) steps: Vec<Step>,
}

impl histories::History for History {
    type Step = Step;

    fn generate(seed: u64, steps: usize) -> Self {
        let random = &mut Random::new(seed);
        let profile = if seed % 3 == 2 {
            Profile::Wide
        } else {
            Profile::Narrow
        };
        let mut scene = Scene::new(profile, random);
        let mut now = NOW;
        let mut history = Self {
            options: Options {
                hide_expired: random.once_in(2),
                revocable_deletions: random.once_in(4),
                relay_url: (!random.once_in(4)).then(|| RELAY.into()),
                // Here results count, not the time that a busy machine takes for them.
                query_budget: Duration::from_hours(1),
                ..Options::default()
            },
            eager: random.once_in(2),
            two_handles: random.once_in(2),
            steps: Vec::new(),
        };
        history.steps = (0..steps)
            .map(|_| step(profile, &mut scene, &mut now, random))
            .collect();
        history
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn steps_mut(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }
}

impl History {
    /// The options of both stores, which share a clock of this run that the history moves.
    pub(crate) fn options(&self) -> Options {
        Options {
            clock: Clock::manual(NOW),
            ..self.options.clone()
        }
    }
}

fn step(profile: Profile, scene: &mut Scene, now: &mut i64, random: &mut Random) -> Step {
    let handle = random.below(2);
    let cursor = random.below(CURSORS);
    match random.below(40) {
        0..16 => {
            let most = match profile {
                Profile::Wide => 30,
                Profile::Narrow => random.pick(&[1, 1, 1, 4, 12]),
            };
            Step::Insert {
                handle,
                events: random.some(most, |random| scene.event(random)),
            }
        }
        16..18 => Step::Delete {
            handle,
            filters: scene.filters(random),
        },
        18 => Step::DeleteId {
            handle,
            id: scene.id(random),
        },
        19 => Step::Sweep { handle },
        20 => {
            *now += random.pick(&[1, 4, 5, 10, 20, -3]);
            Step::Clock(*now)
        }
        21..29 => {
            let size = random.pick(&[1, 2, 3, 7, 500]);
            Step::Ask {
                handle,
                filters: scene.filters(random),
                size,
                max: random.pick(&[0, 2, 10, 5_000]),
            }
        }
        29..31 => Step::Begin {
            handle,
            cursor,
            filters: scene.filters(random),
        },
        31..37 => Step::Page {
            cursor,
            size: random.pick(&[1, 1, 2, 3, 5, 20]),
            hasty: random.once_in(8),
        },
        37 => Step::Contains {
            handle,
            ids: random.some(5, |random| scene.id(random)),
        },
        38 => Step::Reopen,
        _ => Step::Figures { handle },
    }
}

impl histories::Step for Step {
    /// How many events or filters it has.
    fn weight(&self) -> usize {
        match self {
            Self::Insert { events, .. } => events.len(),
            Self::Delete { filters, .. } | Self::Ask { filters, .. } | Self::Begin { filters, .. } => {
                filters.len()
            }
            _ => 0,
        }
    }

    /// The same step with one event or filter less, if it has that many.
    fn simpler(&self, part: usize) -> Option<Self> {
        if part >= self.weight() {
            return None;
        }
        let mut step = self.clone();
        match &mut step {
            Self::Insert { events, .. } => drop(events.remove(part)),
            Self::Delete { filters, .. } | Self::Ask { filters, .. } | Self::Begin { filters, .. } => {
                let mut fewer = filters.to_vec();
                fewer.remove(part);
                *filters = fewer.into();
            }
            _ => return None,
        }
        Some(step)
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "options: hide_expired {}, revocable_deletions {}, relay_url {:?}; contents compared {}",
            self.options.hide_expired,
            self.options.revocable_deletions,
            self.options.relay_url,
            if self.eager {
                "after each change"
            } else {
                "at the end"
            }
        )?;
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "{number:>3}. {step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert { handle, events } => {
                write!(f, "[{handle}] insert")?;
                events
                    .iter()
                    .try_for_each(|event| write!(f, "\n       {}", Shown(event)))
            }
            Self::Delete { handle, filters } => write!(f, "[{handle}] delete {}", shown(filters)),
            Self::DeleteId { handle, id } => write!(f, "[{handle}] delete {}", short(*id)),
            Self::Sweep { handle } => write!(f, "[{handle}] delete what has expired"),
            Self::Clock(now) => write!(f, "it is {}", time(*now)),
            Self::Ask {
                handle,
                filters,
                size,
                max,
            } => {
                write!(
                    f,
                    "[{handle}] query in pages of {size}, count, snapshot up to {max}: {}",
                    shown(filters)
                )
            }
            Self::Begin {
                handle,
                cursor,
                filters,
            } => {
                write!(f, "[{handle}] begin query {cursor}: {}", shown(filters))
            }
            Self::Page { cursor, size, hasty } => {
                write!(
                    f,
                    "{} page of {size} of query {cursor}",
                    if *hasty { "a hasty" } else { "a" }
                )
            }
            Self::Contains { handle, ids } => {
                let ids: Vec<_> = ids.iter().map(|id| short(*id)).collect();
                write!(f, "[{handle}] contains {}", ids.join(" "))
            }
            Self::Figures { handle } => write!(f, "[{handle}] stats and authors without outbox"),
            Self::Reopen => f.write_str("reopen"),
        }
    }
}

fn shown(filters: &Filters) -> String {
    let filters: Vec<_> = filters
        .iter()
        .map(|filter| abridged(&filter.to_string()))
        .collect();
    if filters.is_empty() {
        "no filters".into()
    } else {
        filters.join(" ")
    }
}

/// An id as far as a person needs it to recognise it.
pub(crate) fn short(id: EventId) -> String {
    id.to_string()[..8].into()
}

/// A time as it lies from where histories begin.
fn time(at: i64) -> String {
    match at.checked_sub(NOW) {
        Some(from @ -10_000..=10_000) => format!("now{from:+}"),
        _ => at.to_string(),
    }
}

/// An event in one line: the id's beginning, kind, author, time, tags, content.
struct Shown<'a>(&'a Event);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.0;
        write!(f, "{} kind {}", short(event.id()), event.kind())?;
        if let Some(author) = (0..64).find(|author| pubkey(*author) == event.pubkey()) {
            write!(f, " by {author} ({})", &event.pubkey().to_string()[..8])?;
        }
        write!(f, " at {}", time(event.created_at()))?;
        for tag in event.tags() {
            let elements: Vec<_> = tag
                .elements()
                .map(|element| format!("{:?}", abridged(element)))
                .collect();
            write!(f, " [{}]", elements.join(" "))?;
        }
        write!(f, " {:?}", event.content())
    }
}

/// A text with ids and keys cut to their beginning.
fn abridged(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(|char: char| !char.is_ascii_hexdigit()) {
        let digits = part.trim_end_matches(|char: char| !char.is_ascii_hexdigit());
        let shown = if digits.len() == 64 { &digits[..8] } else { digits };
        out.push_str(shown);
        out.push_str(&part[digits.len()..]);
    }
    out
}
