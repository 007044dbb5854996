//! Esker: a Nostr relay on one SQLite file, and the tools around it.

mod absent;
mod cli;
mod commands;
mod config;
mod coordination;
mod exit;
mod filters;
mod interrupt;
mod lines;
mod logging;
mod open_files;
mod output;
mod payloads;
mod progress;
mod store;
mod table;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {}", esker_coord::engine::with_sources(error.as_ref()));
            exit::Exit::of(&error).into()
        }
    }
}
