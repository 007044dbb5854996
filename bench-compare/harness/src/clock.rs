//! Times that two processes of one machine can compare, and percentiles of latencies.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now, on a clock that all processes share.
pub(crate) fn now() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// The processor time that this process used so far.
pub(crate) fn processor() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// The latency that this share of them, in percent, stays within; in milliseconds.
pub(crate) fn percentile(latencies: &mut [Duration], percent: usize) -> f64 {
    latencies.sort_unstable();
    let last = latencies.len().saturating_sub(1);
    let index = (latencies.len() * percent / 100).min(last);
    latencies
        .get(index)
        .map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).expect("these clocks are not negative")
}
