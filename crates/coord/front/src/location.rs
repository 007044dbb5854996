//! What a URL says of where a store is (CX-02).

use std::{fmt, path::PathBuf};

use esker_coord_api::{Error, Result};
use percent_encoding::percent_decode_str;

/// Where a store is, as a URL says it: [`open`](crate::open()) reads its URL by this. For programs that take the same URLs
/// and open the engine themselves.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// `sqlite:…`: a file.
    Sqlite {
        /// Its path, decoded.
        path: PathBuf,
        /// What follows `?`, as it stands; empty when there is nothing.
        options: String,
    },
    /// `postgres://…` or `postgresql://…`: a database, by the whole URL.
    Postgres(String),
    /// `memory:`.
    Memory,
}

/// A URL may hold a password.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path, options } => f
                .debug_struct("Sqlite")
                .field("path", path)
                .field("options", options)
                .finish(),
            Self::Postgres(_) => f.debug_tuple("Postgres").finish_non_exhaustive(),
            Self::Memory => f.write_str("Memory"),
        }
    }
}

const KNOWN: &str = "there are `sqlite:path.db`, `postgres://user@host/database` and `memory:`";

impl Location {
    /// Reads a URL; what a build contains makes no difference. `None` for what begins with no scheme, as a path does: a
    /// drive's letter is no scheme.
    ///
    /// [`Error::InvalidOption`] for a URL that names no store. Its text repeats no more than the scheme, or a file's path.
    pub fn parse(url: &str) -> Result<Option<Self>> {
        let Some((scheme, rest)) = url
            .split_once(':')
            .filter(|(scheme, rest)| is_scheme(scheme, rest))
        else {
            return Ok(None);
        };
        match scheme {
            "sqlite" => {
                let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
                let path = decode(path.strip_prefix("//").unwrap_or(path))?;
                match path.as_str() {
                    "" | "/" => Err(invalid("it names no file, as `sqlite:path.db` does")),
                    ":memory:" => Err(invalid("a store in memory is `memory:`")),
                    _ if path.contains('\0') => Err(invalid("its path has a zero byte")),
                    _ => Ok(Some(Self::Sqlite {
                        path: path.into(),
                        options: options.into(),
                    })),
                }
            }
            "postgres" | "postgresql" if rest.starts_with("//") => Ok(Some(Self::Postgres(url.into()))),
            "memory" if rest.is_empty() => Ok(Some(Self::Memory)),
            "postgres" | "postgresql" | "memory" => {
                Err(invalid(format!("what follows `{scheme}:` is not right; {KNOWN}")))
            }
            _ => Err(invalid(format!("`{scheme}:` is no store; {KNOWN}"))),
        }
    }

    /// Reads a URL, which must be one.
    pub(crate) fn of(url: &str) -> Result<Self> {
        Self::parse(url)?.ok_or_else(|| invalid(format!("it begins with no engine; {KNOWN}")))
    }
}

fn is_scheme(scheme: &str, rest: &str) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphabetic();
    let sign = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let bytes = scheme.as_bytes();
    let looks_so = bytes.iter().all(letter) || (rest.starts_with("//") && bytes.iter().all(sign));
    bytes.len() > 1 && bytes.first().is_some_and(letter) && looks_so
}

pub(crate) fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidOption {
        option: "url",
        reason: reason.into(),
    }
}

/// `%` and two digits are a byte; any other `%` is itself.
pub(crate) fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Into::into)
        .map_err(|_| invalid(format!("`{text}` is not UTF-8 when it is decoded")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, options: &str) -> Location {
        Location::Sqlite {
            path: path.into(),
            options: options.into(),
        }
    }

    #[test]
    fn cx_02_a_url_says_the_engine_and_the_place() {
        for (url, place) in [
            ("sqlite:a.db", file("a.db", "")),
            ("sqlite:dir/a.db", file("dir/a.db", "")),
            ("sqlite:/var/a.db", file("/var/a.db", "")),
            ("sqlite://a.db", file("a.db", "")),
            ("sqlite:///var/a.db", file("/var/a.db", "")),
            ("sqlite:a%20b%3Fc.db?readers=2", file("a b?c.db", "readers=2")),
            ("sqlite:50%.db", file("50%.db", "")),
            (
                "postgres://app@db/app?x=y",
                Location::Postgres("postgres://app@db/app?x=y".into()),
            ),
            (
                "postgresql://db/app",
                Location::Postgres("postgresql://db/app".into()),
            ),
            ("memory:", Location::Memory),
        ] {
            assert_eq!(Location::parse(url).unwrap(), Some(place), "{url}");
        }
        for path in [
            "",
            "a.db",
            "./a.db",
            "c:a.db",
            "./odd:name.db",
            "./odd://x",
            "name-2:b.db",
            "é:x",
            ":x",
        ] {
            assert_eq!(Location::parse(path).unwrap(), None, "{path}");
        }
    }

    #[test]
    fn cx_02_a_url_of_no_store_is_refused_with_what_would_be_right() {
        for (url, tells) in [
            ("sqlite:", "`sqlite:path.db`"),
            ("sqlite://", "`sqlite:path.db`"),
            ("sqlite:?readers=2", "`sqlite:path.db`"),
            ("sqlite::memory:", "`memory:`"),
            ("sqlite:a%FF.db", "UTF-8"),
            ("postgres:app", "`postgres://user@host/database`"),
            ("memory:x", "`memory:`"),
            ("odd:name.db", "`odd:` is no store"),
            ("mysql://root:secret@db/app", "`mysql:` is no store"),
            ("my-sql2://db/app", "`my-sql2:` is no store"),
        ] {
            let refused = Location::parse(url).unwrap_err().to_string();
            assert!(
                refused.contains(tells) && !refused.contains("secret"),
                "{url}: {refused}"
            );
        }
    }

    #[test]
    fn cx_02_no_password_is_shown() {
        let location = Location::parse("postgres://app:secret@db/app").unwrap();
        assert_eq!(format!("{location:?}"), "Some(Postgres(..))");
    }
}
