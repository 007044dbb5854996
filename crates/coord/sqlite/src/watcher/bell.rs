//! What tells the watcher that the file has changed: inotify where there is it, else the passing of time.
//!
//! No descriptor of the database file or its `-shm` is opened: closing one would drop SQLite's locks. A watch is made by
//! path and is no descriptor of the file.

use std::{
    io,
    path::Path,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum Heard {
    /// The write-ahead log was written.
    Log,
    /// The database file may have been moved or removed.
    File,
    /// The time passed, or the watcher is to end.
    Nothing,
}

pub(crate) enum Bell {
    #[cfg(target_os = "linux")]
    Inotify(inotify::Inotify),
    Timer(Timer),
}

impl Bell {
    /// Rings for changes from now on.
    pub(crate) fn new(database: &Path, inotify: bool) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if inotify {
            match inotify::Inotify::new(database) {
                // As on a host where many programs watch files.
                Err(error) if inotify::is_used_up(&error) => {
                    tracing::warn!(%error, "no inotify instance is left; the watcher looks at intervals");
                }
                done => return done.map(Self::Inotify),
            }
        }
        let _ = (database, inotify);
        Ok(Self::Timer(Timer::default()))
    }

    /// Whether it rings, rather than have the watcher look at intervals.
    pub(crate) fn rings(&self) -> bool {
        !matches!(self, Self::Timer(_))
    }

    /// Waits for a change, for the end or for the time to pass.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<Heard> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Inotify(inotify) => inotify.wait(most),
            Self::Timer(timer) => {
                timer.wait(most);
                Ok(Heard::Nothing)
            }
        }
    }

    /// Ends this wait and all later ones.
    pub(crate) fn stop(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Inotify(inotify) => inotify.stop(),
            Self::Timer(timer) => timer.stop(),
        }
    }
}

/// Only time.
#[derive(Default)]
pub(crate) struct Timer {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Timer {
    fn wait(&self, most: Duration) {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(stopped, most, |stopped| !*stopped);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    //! Linux tells of changes, whichever process made them.

    use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path, time::Duration};

    use rustix::{
        event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
        fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init},
        io::Errno,
    };

    use super::Heard;
    use crate::flusher::log_path;

    pub(crate) struct Inotify {
        events: OwnedFd,
        stop: OwnedFd,
        log: i32,
    }

    pub(crate) fn is_used_up(error: &io::Error) -> bool {
        matches!(
            Errno::from_io_error(error),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOSPC | Errno::NOSYS)
        )
    }

    impl Inotify {
        pub(crate) fn new(database: &Path) -> io::Result<Self> {
            let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let log = add_watch(&events, log_path(database), WatchFlags::MODIFY)?;
            // A file that another is renamed over loses a link, which changes its attributes.
            let moved = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            add_watch(&events, database, moved)?;
            let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Self { events, stop, log })
        }

        pub(crate) fn wait(&self, most: Duration) -> io::Result<Heard> {
            // Longer than the kernel can count is as good as for ever.
            let timeout = Timespec::try_from(most).ok();
            let mut watched = [
                PollFd::new(&self.events, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match poll(&mut watched, timeout.as_ref()) {
                Ok(_) if watched[0].revents().is_empty() => Ok(Heard::Nothing),
                Ok(_) => self.take(),
                Err(Errno::INTR) => Ok(Heard::Nothing),
                Err(error) => Err(error.into()),
            }
        }

        /// Takes all that waits.
        fn take(&self) -> io::Result<Heard> {
            let mut heard = Heard::Nothing;
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut events = Reader::new(&self.events, &mut buffer);
            loop {
                match events.next() {
                    // More came than were kept: look at everything.
                    Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => heard = Heard::File,
                    Ok(event) if event.wd() != self.log => heard = Heard::File,
                    Ok(_) if heard == Heard::Nothing => heard = Heard::Log,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(heard),
                    Err(error) => return Err(error.into()),
                }
            }
        }

        pub(crate) fn stop(&self) {
            // Fails only when it was rung more often than can be counted.
            let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        }
    }
}
