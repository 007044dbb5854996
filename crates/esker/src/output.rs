//! Printing results: a reader that has enough, such as `head`, is no failure.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

/// Prints a line to standard output.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
