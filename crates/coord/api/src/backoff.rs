//! How long a failed job waits before it is tried again (CQ-04).

/// The longest step of the curve, in seconds.
const LONGEST: i64 = 3600;

/// The delay after `attempts` claims with this base, in seconds: equal jitter, uniform over the integers from half of
/// `d = min(base * 2^(attempts - 1), 3600)`, rounded up, to `d`; at least 1.
pub fn backoff(attempts: i64, base: i64) -> i64 {
    let (low, high) = bounds(attempts, base);
    fastrand::i64(low..=high)
}

/// The smallest and the largest delay.
fn bounds(attempts: i64, base: i64) -> (i64, i64) {
    let doublings = u32::try_from(attempts.saturating_sub(1).clamp(0, 62)).unwrap_or(0);
    let step = base.max(0).saturating_mul(1 << doublings).min(LONGEST);
    ((step - step / 2).max(1), step.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cq_04_the_curve_doubles_to_an_hour() {
        for (attempts, base, expected) in [
            (1, 5, (3, 5)),
            (2, 5, (5, 10)),
            (3, 5, (10, 20)),
            (10, 5, (1280, 2560)),
            (11, 5, (1800, 3600)),
            (1, 1, (1, 1)),
            (1, 7200, (1800, 3600)),
            (63, 1, (1800, 3600)),
            (i64::MAX, i64::MAX, (1800, 3600)),
            (0, 5, (3, 5)),
            (i64::MIN, 0, (1, 1)),
            (3, -5, (1, 1)),
        ] {
            assert_eq!(
                bounds(attempts, base),
                expected,
                "attempts {attempts}, base {base}"
            );
        }
    }

    #[test]
    fn cq_04_every_delay_between_the_bounds_occurs() {
        let mut seen = [0_u32; 12];
        for _ in 0..4000 {
            seen[usize::try_from(backoff(2, 5)).unwrap()] += 1;
        }
        for (delay, count) in seen.into_iter().enumerate() {
            assert_eq!((5..=10).contains(&delay), count > 0, "{delay} came {count} times");
        }
    }
}
