//! How a URL has a SQLite file opened: what it says after `?`.

use std::{str::FromStr, time::Duration};

use esker_coord_api::Result;
use esker_coord_sqlite::{Settings, Synchronous};

use crate::location::{decode, invalid};

type Set = fn(&mut Settings, &str) -> Option<()>;

const OPTIONS: [(&str, Set); 12] = [
    ("synchronous", |settings, value| {
        settings.database.synchronous = match value {
            "full" => Synchronous::Full,
            "normal" => Synchronous::Normal,
            _ => return None,
        };
        Some(())
    }),
    ("readers", |settings, value| {
        number(value, &mut settings.database.readers)
    }),
    ("busy_timeout_ms", |settings, value| {
        millis(value, &mut settings.database.busy_timeout)
    }),
    ("read_budget_ms", |settings, value| {
        millis(value, &mut settings.read_budget)
    }),
    ("idle_transaction_ms", |settings, value| {
        millis(value, &mut settings.database.idle_transaction)
    }),
    ("inotify", |settings, value| {
        settings.database.inotify = value.parse().ok()?;
        Some(())
    }),
    ("watch_interval_ms", |settings, value| {
        millis(value, &mut settings.database.watch_interval)
    }),
    ("safety_poll_ms", |settings, value| {
        millis(value, &mut settings.database.safety_poll)
    }),
    ("writer_cache_kib", |settings, value| {
        number(value, &mut settings.database.writer_cache)
    }),
    ("reader_cache_kib", |settings, value| {
        number(value, &mut settings.database.reader_cache)
    }),
    ("wal_limit_bytes", |settings, value| {
        number(value, &mut settings.database.wal_limit)
    }),
    ("max_pages", |settings, value| {
        let mut pages = 0;
        number(value, &mut pages)?;
        settings.database.max_pages = Some(pages);
        Some(())
    }),
];

/// Reads what follows `?`.
pub(crate) fn settings(options: &str) -> Result<Settings> {
    let mut settings = Settings::default();
    for pair in options.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((_, set)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = OPTIONS.iter().map(|(known, _)| *known).collect();
            return Err(invalid(format!(
                "it has the unknown option `{name}`; there are {}",
                known.join(", ")
            )));
        };
        if set(&mut settings, &decode(value)?).is_none() {
            let takes = match name {
                "synchronous" => "`full` or `normal`",
                "inotify" => "`true` or `false`",
                _ => "a whole number",
            };
            return Err(invalid(format!(
                "its option `{name}` takes {takes}, not `{value}`"
            )));
        }
    }
    Ok(settings)
}

fn number<N: FromStr>(value: &str, field: &mut N) -> Option<()> {
    *field = value.parse().ok()?;
    Some(())
}

fn millis(value: &str, field: &mut Duration) -> Option<()> {
    *field = Duration::from_millis(value.parse().ok()?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cx_02_a_url_says_how_a_file_is_opened() {
        assert!(settings("").unwrap().database.inotify);
        let settings = settings(
            "synchronous=normal&readers=3&busy_timeout_ms=1&read_budget_ms=2&idle_transaction_ms=3&inotify=false\
             &watch_interval_ms=%34&safety_poll_ms=5&writer_cache_kib=6&reader_cache_kib=7&wal_limit_bytes=8&max_pages=9",
        )
        .unwrap();
        let database = settings.database;
        assert_eq!(database.synchronous, Synchronous::Normal);
        assert!(!database.inotify);
        let spans = [
            database.busy_timeout,
            settings.read_budget,
            database.idle_transaction,
            database.watch_interval,
            database.safety_poll,
        ];
        assert_eq!(spans.map(|span| span.as_millis()), [1, 2, 3, 4, 5]);
        assert_eq!(
            (database.readers, database.wal_limit, database.max_pages),
            (3, 8, Some(9))
        );
        assert_eq!((database.writer_cache, database.reader_cache), (6, 7));
    }

    #[test]
    fn cx_02_an_option_that_a_url_cannot_have_is_refused_with_what_would_be_right() {
        for (options, tells) in [
            ("reader=2", "`reader`; there are synchronous, readers"),
            ("cache=shared", "`cache`"),
            ("readers=many", "`readers` takes a whole number, not `many`"),
            ("readers", "`readers` takes"),
            ("max_pages=-1", "`max_pages`"),
            ("synchronous=off", "`full` or `normal`, not `off`"),
            ("inotify=1", "`true` or `false`, not `1`"),
            ("readers=%FF", "UTF-8"),
        ] {
            let refused = settings(options).unwrap_err().to_string();
            assert!(refused.contains(tells), "{options}: {refused}");
        }
    }
}
