//! A caller's closure on its way to the writer, and the answer on its way back.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tokio::sync::oneshot;

use crate::{Error, Transaction, error::panic_message};

/// One closure for the writer, its result kept until its fate is known. One allocation carries both.
pub(crate) trait Task: Send {
    /// Runs the closure in a savepoint, once, and keeps its result; `false` when the savepoint was rolled back.
    fn run(&mut self, tx: &mut Transaction<'_>) -> bool;
    /// Turns success into this error. A result that is an error already stays: it was undone then.
    fn fail(&mut self, error: &Error);
    /// Whether the result says that the disk is full; seen where the closure's error is [`Error`] itself.
    fn met_full_disk(&self) -> bool;
    /// Hands the result to the caller, if it still waits.
    fn answer(self: Box<Self>);
}

struct Closure<T, E, F> {
    work: Option<F>,
    result: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
}

/// A task of `work`, and where its result will arrive.
pub(crate) fn task<T, E, F>(work: F) -> (Box<dyn Task>, oneshot::Receiver<Result<T, E>>)
where
    F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let (caller, answer) = oneshot::channel();
    (
        Box::new(Closure {
            work: Some(work),
            result: None,
            caller,
        }),
        answer,
    )
}

impl<T, E, F> Task for Closure<T, E, F>
where
    F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send + 'static,
{
    fn run(&mut self, tx: &mut Transaction<'_>) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let result = catch_unwind(AssertUnwindSafe(|| tx.savepoint(work)))
            .unwrap_or_else(|panic| Err(Error::Panicked(panic_message(&*panic)).into()));
        let kept = result.is_ok();
        self.result = Some(result);
        kept
    }

    fn fail(&mut self, error: &Error) {
        if !matches!(self.result, Some(Err(_))) {
            self.result = Some(Err(error.clone().into()));
        }
    }

    fn met_full_disk(&self) -> bool {
        let error = self.result.as_ref().and_then(|result| result.as_ref().err());
        error
            .and_then(|error| (error as &dyn Any).downcast_ref::<Error>())
            .is_some_and(Error::is_full)
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            // The caller may be gone (CX-10).
            drop(self.caller.send(result));
        }
    }
}
