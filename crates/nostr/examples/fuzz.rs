//! The fuzz loop without an end: `cargo run -p esker-nostr --features testing --example fuzz -- [--seed N]`.

use std::process::ExitCode;

use esker_nostr::testing::fuzz;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let first = match arguments.as_slice() {
        [] => Some(0),
        [flag, seed] if flag == "--seed" => seed.parse().ok(),
        _ => None,
    };
    let Some(first) = first else {
        eprintln!("usage: fuzz [--seed N]");
        return ExitCode::from(2);
    };
    for seed in first..=u64::MAX {
        if let Err(failure) = fuzz::round(seed) {
            eprintln!("{failure}");
            return ExitCode::FAILURE;
        }
        if seed % 100_000 == 99_999 {
            eprintln!("seeds up to {seed} hold");
        }
    }
    ExitCode::SUCCESS
}
