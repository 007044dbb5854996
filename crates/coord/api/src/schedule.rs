//! Schedules: the grammar, and which boundaries fire (CD-01, CD-03).

use std::{fmt, str::FromStr};

use crate::{Error, Name, NewJob, Result};

/// Boundaries that are replayed after downtime, per schedule.
pub const MOST_REPLAYED: i64 = 64;

/// When a schedule fires: every so many seconds (CD-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    every_s: i64,
}

/// What becomes of a schedule's elapsed boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatchUp {
    /// Boundaries to fire, oldest first: the newest 64 of those that have elapsed.
    pub fire: Vec<i64>,
    /// The next boundary, on the same grid; after now.
    pub next: i64,
}

impl Spec {
    /// Every so many seconds; [`Error::InvalidSpec`] when that is not positive.
    pub fn every(seconds: i64) -> Result<Self> {
        if seconds <= 0 {
            return Err(Error::InvalidSpec {
                spec: format!("@every {seconds}s"),
                reason: "the interval must be positive",
            });
        }
        Ok(Self { every_s: seconds })
    }

    /// The interval, in seconds.
    pub fn seconds(self) -> i64 {
        self.every_s
    }

    /// The first boundary of a schedule that is registered `now`: one interval later.
    pub fn first(self, now: i64) -> i64 {
        now.saturating_add(self.every_s)
    }

    /// What fires `now`, where `next` is the first boundary that has not fired.
    pub fn catch_up(self, next: i64, now: i64) -> CatchUp {
        if next > now || next == i64::MAX {
            return CatchUp {
                fire: Vec::new(),
                next,
            };
        }
        // Wide enough for every pair of times.
        let (every, first) = (i128::from(self.every_s), i128::from(next));
        let newest = (i128::from(now) - first) / every;
        let oldest = (newest + 1 - i128::from(MOST_REPLAYED)).max(0);
        let boundary = |n: i128| i64::try_from(first + n * every).unwrap_or(i64::MAX);
        CatchUp {
            fire: (oldest..=newest).map(boundary).collect(),
            next: boundary(newest + 1),
        }
    }
}

/// `@every <n><unit>`, n positive, unit s, m, h or d.
impl FromStr for Spec {
    type Err = Error;

    fn from_str(spec: &str) -> Result<Self> {
        let invalid = |reason| Error::InvalidSpec {
            spec: spec.chars().take(100).collect(),
            reason,
        };
        let grammar = "it must be \"@every <n><unit>\", n a positive number, unit s, m, h or d";
        let interval = spec.strip_prefix("@every ").ok_or(invalid(grammar))?;
        let unit = match interval.as_bytes().last() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 86_400,
            _ => return Err(invalid(grammar)),
        };
        let number = &interval[..interval.len() - 1];
        if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(invalid(grammar));
        }
        let every_s = number
            .parse::<i64>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
            .ok_or(invalid("the interval is longer than can be counted in seconds"))?;
        if every_s == 0 {
            return Err(invalid("the interval must be positive"));
        }
        Ok(Self { every_s })
    }
}

/// In the largest unit that fits; [`FromStr`] reads it back.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];
        let (unit, letter) = units
            .into_iter()
            .find(|(unit, _)| self.every_s % unit == 0)
            .expect("every number is a multiple of one");
        write!(f, "@every {}{letter}", self.every_s / unit)
    }
}

/// How much one transaction fires: whole schedules, until it is full, so that nobody waits for it for long. What is left is
/// due at once. (A schedule that were fired in part would lose its oldest boundaries to those that elapse meanwhile.)
#[derive(Debug)]
pub struct FiringRoom {
    jobs: usize,
    bytes: usize,
}

impl Default for FiringRoom {
    fn default() -> Self {
        Self {
            jobs: Self::JOBS,
            bytes: Self::BYTES,
        }
    }
}

impl FiringRoom {
    /// Jobs that are enough.
    pub const JOBS: usize = 1024;
    /// Bytes of their payloads that are enough.
    pub const BYTES: usize = 4 << 20;

    /// Whether another schedule may be fired.
    pub fn is_left(&self) -> bool {
        self.jobs > 0 && self.bytes > 0
    }

    /// Takes the room of a schedule that is fired.
    pub fn take(&mut self, schedule: &NewSchedule, fires: &CatchUp) {
        let payload = schedule.job.payload.as_bytes().len();
        self.jobs = self.jobs.saturating_sub(fires.fire.len());
        self.bytes = self
            .bytes
            .saturating_sub(fires.fire.len().saturating_mul(payload));
    }
}

/// A schedule as it goes to the engine, checked and stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// Its name; scheduling again under the same name changes it.
    pub name: Name,
    /// When it fires. Unchanged, it keeps its next boundary; changed, it starts anew from now (CD-03).
    pub spec: Spec,
    /// Where its jobs go.
    pub queue: Name,
    /// What is enqueued; each firing sets [`start`](NewJob::start) and [`boundary`](NewJob::boundary).
    pub job: NewJob,
}

impl NewSchedule {
    /// The job that stands for this boundary.
    pub fn job_at(&self, boundary: i64) -> NewJob {
        NewJob {
            start: crate::Start::At(boundary),
            boundary: Some(boundary),
            ..self.job.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cd_01_the_grammar_is_every_n_unit_and_nothing_else() {
        for (spec, seconds) in [
            ("@every 1s", 1),
            ("@every 90s", 90),
            ("@every 5m", 300),
            ("@every 36h", 129_600),
            ("@every 007d", 604_800),
        ] {
            assert_eq!(spec.parse::<Spec>().unwrap().seconds(), seconds, "{spec}");
        }
        for spec in [
            "",
            "@every",
            "@every ",
            "@every s",
            "@every 0s",
            "@every 00h",
            "@every -1s",
            "@every +1s",
            "@every 1",
            "@every 1w",
            "@every 1S",
            "@every  1s",
            "@every 1 s",
            " @every 1s",
            "@every 1s ",
            "@every5s",
            "every 1s",
            "@every 1.5h",
            "@every 1s 2s",
            "@every 1ms",
            "@every ١s",
            "@every 9223372036854775807d",
            "@every 99999999999999999999s",
            "* * * * *",
            "@daily",
            "@every 1é",
        ] {
            assert!(
                matches!(spec.parse::<Spec>(), Err(Error::InvalidSpec { .. })),
                "{spec:?}"
            );
        }
    }

    #[test]
    fn cd_01_a_spec_is_written_as_it_is_read() {
        for (seconds, text) in [
            (1, "@every 1s"),
            (90, "@every 90s"),
            (120, "@every 2m"),
            (7200, "@every 2h"),
            (172_800, "@every 2d"),
        ] {
            let spec = Spec::every(seconds).unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(text.parse::<Spec>().unwrap(), spec);
        }
        assert!(Spec::every(0).is_err());
    }

    #[test]
    fn cd_03_elapsed_boundaries_fire_oldest_first_and_the_grid_stays() {
        let spec = Spec::every(10).unwrap();
        assert_eq!(spec.first(100), 110);
        for (next, now, fire, then) in [
            (110, 109, vec![], 110),
            (110, 110, vec![110], 120),
            (110, 135, vec![110, 120, 130], 140),
        ] {
            assert_eq!(
                spec.catch_up(next, now),
                CatchUp { fire, next: then },
                "{next} at {now}"
            );
        }
    }

    #[test]
    fn cd_03_the_newest_64_are_replayed_after_downtime() {
        let spec = Spec::every(10).unwrap();
        let all = spec.catch_up(110, 110 + 63 * 10);
        assert_eq!((all.fire.len(), all.fire[0], all.next), (64, 110, 110 + 640));
        let long = spec.catch_up(110, 110 + 1000 * 10 + 3);
        assert_eq!(long.fire.len(), 64);
        assert_eq!(
            (long.fire[0], long.fire[63], long.next),
            (110 + 937 * 10, 110 + 10_000, 110 + 10_010)
        );
    }

    #[test]
    fn cd_03_no_time_is_too_far() {
        let spec = Spec::every(i64::MAX).unwrap();
        assert_eq!(spec.first(100), i64::MAX);
        assert!(spec.catch_up(i64::MAX, i64::MAX).fire.is_empty());
        let spec = Spec::every(1).unwrap();
        let wide = spec.catch_up(i64::MIN, i64::MAX);
        assert_eq!((wide.fire.len(), wide.next), (64, i64::MAX));
    }
}
