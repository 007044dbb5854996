//! Ctrl-C and SIGTERM: the first asks the command to stop cleanly, the second ends the process at once.

use std::io;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::exit::Exit;

/// Whether the user or the system asked the program to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens from now on. The user is told that the program stops; `silent` is for one whose standard error
    /// is a log.
    pub(crate) fn listen(silent: bool) -> io::Result<Self> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            let mut next =
                async || tokio::select! { _ = interrupts.recv() => (), _ = terminations.recv() => () };
            next().await;
            sender.send_replace(true);
            if !silent {
                eprintln!("stopping; once more ends it at once");
            }
            next().await;
            std::process::exit(Exit::Interrupted as i32);
        });
        Ok(Self(receiver))
    }

    /// Whether it came.
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it.
    pub(crate) async fn wait(&mut self) {
        // The sender lives as long as the process: it waits for the second signal.
        let _ = self.0.wait_for(|set| *set).await;
    }
}
