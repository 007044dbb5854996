//! Logs on standard error, as text or JSON.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{config::Config, exit::Usage};

/// Starts logging. Commands that end by themselves log warnings only, unless the level was chosen.
pub(crate) fn start(config: &Config, serving: bool) -> Result<(), Usage> {
    let level = if serving || config.is_chosen("log.level") {
        config.text("log.level")
    } else {
        "warn"
    };
    let filter = parse(level).map_err(|error| Usage(format!("`log.level`: {error}")))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match config.text("log.format") {
        "json" => logs.json().init(),
        _ => logs.init(),
    }
    Ok(())
}

/// Checks a value of `log.level`.
pub(crate) fn check(level: &str) -> Result<(), String> {
    parse(level).map(drop)
}

/// Reads a level, or levels per module. A bare word that is no level is refused: the filter would take it for a
/// module's name, and log everything of a module that does not exist.
fn parse(level: &str) -> Result<EnvFilter, String> {
    for word in level.split(',').map(str::trim) {
        let bare = !word.contains(['=', '[', ':']);
        if bare && (word.is_empty() || word.parse::<LevelFilter>().is_err()) {
            return Err(format!(
                "`{word}` is no level; use `error`, `warn`, `info`, `debug` or `trace`, or levels per module as in \
                 `warn,esker_relay=debug`"
            ));
        }
    }
    EnvFilter::try_new(level).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_level_is_a_word_that_is_known_or_directives_that_can_be_read() {
        for level in [
            "error",
            "warn",
            "info",
            "debug",
            "trace",
            "warn,esker_relay=debug",
            "esker=trace",
        ] {
            assert_eq!(check(level), Ok(()), "{level}");
        }
        for wrong in ["loud", "", "info,loud", "esker=loud", ",,=", "esker_relay"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
