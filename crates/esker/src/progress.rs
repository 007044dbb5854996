//! Progress on a terminal, on standard error; nothing in a pipe or for machines.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over bytes of input; without a total a spinner.
pub(crate) fn bytes(total: Option<u64>, json: bool) -> ProgressBar {
    start(
        total,
        json,
        "{bar:30} {bytes}/{total_bytes} {eta} {msg}",
        "{spinner} {bytes} {msg}",
    )
}

/// A bar over a number of things; without a total a spinner.
pub(crate) fn count(total: Option<u64>, json: bool) -> ProgressBar {
    start(
        total,
        json,
        "{bar:30} {human_pos}/{human_len} {eta} {msg}",
        "{spinner} {human_pos} {msg}",
    )
}

fn start(total: Option<u64>, json: bool, with_total: &str, without: &str) -> ProgressBar {
    if json {
        return ProgressBar::hidden();
    }
    // Draws on a terminal only.
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(8));
    let template = if total.is_some() { with_total } else { without };
    bar.set_style(ProgressStyle::with_template(template).expect("the templates above are valid"));
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
