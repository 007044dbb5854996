//! Ctrl-C and SIGTERM: the first asks the command to stop cleanly, the second ends the process at once.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::exit::Exit;

/// Whether the user or the system asked the program to stop.
#[derive(Clone)]
pub(crate) struct Interrupt {
    came: watch::Receiver<Option<Signal>>,
    last: Arc<Mutex<Option<Last>>>,
    /// Ctrl-C is another's to answer.
    left: Arc<AtomicBool>,
}

/// What is done before the process ends at once.
type Last = Box<dyn FnOnce() + Send>;

impl Interrupt {
    /// Listens from now on. The user is told that the program stops; `silent` is for one whose standard error
    /// is a log.
    pub(crate) fn listen(silent: bool) -> io::Result<Self> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let (sender, came) = watch::channel(None);
        let last = Arc::<Mutex<Option<Last>>>::default();
        let before_exit = Arc::clone(&last);
        let left = Arc::<AtomicBool>::default();
        let is_left = Arc::clone(&left);
        tokio::spawn(async move {
            let mut next = async || {
                loop {
                    tokio::select! {
                        _ = interrupts.recv() => if !is_left.load(Ordering::Relaxed) {
                            break Signal::INT;
                        },
                        _ = terminations.recv() => break Signal::TERM,
                    }
                }
            };
            sender.send_replace(Some(next().await));
            if !silent {
                eprintln!("stopping; once more ends it at once");
            }
            next().await;
            if let Some(last) = lock(&before_exit).take() {
                last();
            }
            std::process::exit(Exit::Interrupted.code().into());
        });
        Ok(Self { came, last, left })
    }

    /// Whether it came.
    pub(crate) fn is_set(&self) -> bool {
        self.came.borrow().is_some()
    }

    /// Waits for it, and tells which it was.
    pub(crate) async fn wait(&mut self) -> Signal {
        // The sender lives as long as the process: it waits for the second signal.
        let came = self.came.wait_for(Option::is_some).await;
        came.ok().and_then(|signal| *signal).unwrap_or(Signal::TERM)
    }

    /// Leaves Ctrl-C to a command that the terminal sends it to as well: from now on only SIGTERM counts.
    pub(crate) fn leave_ctrl_c(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Has this done when the second one ends the process.
    pub(crate) fn before_exit(&self, last: impl FnOnce() + Send + 'static) {
        *lock(&self.last) = Some(Box::new(last));
    }
}

fn lock(last: &Mutex<Option<Last>>) -> std::sync::MutexGuard<'_, Option<Last>> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}
