//! Names: what is shared between processes, and what is a caller's own (CX-06).

use std::{borrow::Borrow, fmt, sync::Arc};

use crate::{Error, Result};

/// What the store keeps for itself.
pub(crate) const RESERVED: &str = "__alkstore_";

/// Bytes that a shared name may have.
const LONGEST: usize = 200;

/// The checked name of a channel, stream, queue, outbox, lock or schedule: not blank, at most 200 bytes, no control
/// characters, and not of the reserved prefix. Engines receive nothing else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks a name that a caller gave.
    pub fn new(name: &str) -> Result<Self> {
        if name.starts_with(RESERVED) {
            return Err(Error::ReservedName {
                name: name.to_owned(),
            });
        }
        let invalid = |reason| {
            Err(Error::InvalidName {
                name: name.chars().take(LONGEST).collect(),
                reason,
            })
        };
        if name.trim().is_empty() {
            return invalid("it must not be blank");
        }
        if name.len() > LONGEST {
            return invalid("it must not be longer than 200 bytes");
        }
        if name.chars().any(char::is_control) {
            return invalid("it must not contain control characters");
        }
        Ok(Self(name.into()))
    }

    /// A name that was checked before, such as one that an engine stored.
    pub fn trusted(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// A name of the store's own, unreachable by callers.
    pub(crate) fn reserved(rest: &str) -> Self {
        Self(format!("{RESERVED}{rest}").into())
    }

    /// The lock that the runners of schedules take (CD-02).
    pub(crate) fn scheduler() -> Self {
        Self::reserved("scheduler")
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The checked name of a consumer, owner or worker: not blank.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalName(Arc<str>);

impl LocalName {
    /// Checks a name that a caller gave.
    pub fn new(name: &str) -> Result<Self> {
        if name.trim().is_empty() {
            return Err(Error::InvalidName {
                name: name.to_owned(),
                reason: "it must not be blank",
            });
        }
        Ok(Self(name.into()))
    }

    /// A name that was checked before, such as one that an engine stored.
    pub fn trusted(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )*};
}

text!(Name LocalName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cx_06_shared_names_are_checked() {
        for name in [
            "",
            " ",
            "\t",
            "a\nb",
            "a\u{0}",
            "\u{7f}x",
            &"a".repeat(201),
            &"é".repeat(101),
        ] {
            assert!(
                matches!(Name::new(name), Err(Error::InvalidName { .. })),
                "{name:?}"
            );
        }
        for name in ["__alkstore_", "__alkstore_scheduler"] {
            assert!(
                matches!(Name::new(name), Err(Error::ReservedName { .. })),
                "{name:?}"
            );
        }
        for name in ["a", "__alkstore", " a b ", "Ünïcode/€", &"a".repeat(200)] {
            assert_eq!(Name::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn cx_06_local_names_are_only_not_blank() {
        assert!(matches!(LocalName::new(" \n"), Err(Error::InvalidName { .. })));
        for name in ["__alkstore_x", "a\nb", &"a".repeat(1000)] {
            assert_eq!(LocalName::new(name).unwrap().as_str(), name);
        }
    }
}
