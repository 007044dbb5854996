//! Printing results: a reader that has enough, such as `head`, is no failure.

use std::{
    fmt::Display,
    future::pending,
    io::{self, Write as _},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::sync::oneshot;

/// Prints a line to standard output.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A text that does nothing to the terminal and stays on its line.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Resolves when nobody reads standard output any more, for a command that waits with nothing to print.
pub(crate) async fn closed() {
    let (tell, told) = oneshot::channel();
    // A thread, because not everything that standard output can be is known to the runtime's poller. Nobody waits for it
    // at the end.
    thread::spawn(move || {
        let stdout = io::stdout();
        // That the other end has gone is told unasked; that there is room, which is always so, is not asked for.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut fds, None) == Err(Errno::INTR) {}
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            let _ = tell.send(());
        }
    });
    if told.await.is_err() {
        pending::<()>().await;
    }
}
