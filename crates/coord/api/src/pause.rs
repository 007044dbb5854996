//! Growing pauses between tries, while the storage fails or others are at it.

use std::time::Duration;

use crate::clock::sleep;

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(5);

/// How long the next pause is: twice the last one, at most 5 s, and half of that by chance, so that many workers do not
/// try at once.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    taken: u32,
}

impl Pause {
    /// The next pause, in real time.
    pub(crate) async fn take(&mut self) {
        sleep(self.next()).await;
    }

    /// The length of the next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let step = SHORTEST.saturating_mul(1 << self.taken.min(16)).min(LONGEST);
        self.taken = self.taken.saturating_add(1);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The next pause is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew() {
        let mut pause = Pause::default();
        let mut step = SHORTEST;
        for _ in 0..100 {
            let next = pause.next();
            assert!(next >= step / 2 && next <= step, "{next:?} of {step:?}");
            step = (step * 2).min(LONGEST);
        }
        pause.reset();
        assert!(pause.next() <= SHORTEST);
    }
}
