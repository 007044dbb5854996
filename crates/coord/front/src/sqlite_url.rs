//! What a URL of the SQLite engine says: the file, and after `?` how it is opened.

use std::{path::PathBuf, str::FromStr, time::Duration};

use esker_coord_api::{Error, Result};
use esker_coord_sqlite::{Settings, Synchronous};
use percent_encoding::percent_decode_str;

use crate::open::invalid;

type Set = fn(&mut Settings, &str) -> Option<()>;

const OPTIONS: [(&str, Set); 11] = [
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

/// Reads what follows `sqlite:`.
pub(crate) fn parse(rest: &str) -> Result<(PathBuf, Settings)> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = decode(path.strip_prefix("//").unwrap_or(path))?;
    match path.as_str() {
        "" | "/" => return Err(invalid("it names no file, as `sqlite:path.db` does")),
        ":memory:" => return Err(invalid("a store in memory is `memory:`")),
        _ => {}
    }
    let mut settings = Settings::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((_, set)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = OPTIONS.iter().map(|(known, _)| *known).collect();
            return Err(invalid(format!(
                "it has the unknown option `{name}`; there are {}",
                known.join(", ")
            )));
        };
        if set(&mut settings, &decode(value)?).is_none() {
            let takes = if name == "synchronous" {
                "`full` or `normal`"
            } else {
                "a whole number"
            };
            return Err(invalid(format!(
                "its option `{name}` takes {takes}, not `{value}`"
            )));
        }
    }
    Ok((path.into(), settings))
}

fn number<N: FromStr>(value: &str, field: &mut N) -> Option<()> {
    *field = value.parse().ok()?;
    Some(())
}

fn millis(value: &str, field: &mut Duration) -> Option<()> {
    *field = Duration::from_millis(value.parse().ok()?);
    Some(())
}

/// `%` and two digits are a byte; any other `%` is itself.
fn decode(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Into::into)
        .map_err(|_| invalid(format!("`{text}` is not UTF-8 when it is decoded")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn cx_02_a_url_names_a_file_and_how_it_is_opened() {
        for (rest, path) in [
            ("a.db", "a.db"),
            ("dir/a.db", "dir/a.db"),
            ("/var/a.db", "/var/a.db"),
            ("//a.db", "a.db"),
            ("///var/a.db", "/var/a.db"),
            ("a%20b%3Fc.db?readers=2", "a b?c.db"),
            ("50%.db", "50%.db"),
        ] {
            assert_eq!(parse(rest).unwrap().0, Path::new(path), "{rest}");
        }
        let (_, settings) = parse(
            "a.db?synchronous=normal&readers=3&busy_timeout_ms=1&read_budget_ms=2&idle_transaction_ms=3&watch_interval_ms=4\
             &safety_poll_ms=5&writer_cache_kib=6&reader_cache_kib=7&wal_limit_bytes=8&max_pages=9",
        )
        .unwrap();
        let database = settings.database;
        assert_eq!(database.synchronous, Synchronous::Normal);
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
    fn cx_02_what_a_url_cannot_say_is_refused_with_what_would_be_right() {
        for (rest, tells) in [
            ("", "sqlite:path.db"),
            ("//", "sqlite:path.db"),
            ("?readers=2", "sqlite:path.db"),
            (":memory:", "`memory:`"),
            ("a.db?reader=2", "`reader`; there are synchronous, readers"),
            ("a.db?cache=shared", "`cache`"),
            ("a.db?readers=many", "`readers` takes a whole number, not `many`"),
            ("a.db?readers", "`readers` takes"),
            ("a.db?max_pages=-1", "`max_pages`"),
            ("a.db?synchronous=off", "`full` or `normal`, not `off`"),
            ("a%FF.db", "UTF-8"),
        ] {
            let refused = parse(rest).unwrap_err().to_string();
            assert!(refused.contains(tells), "{rest}: {refused}");
        }
    }
}
