//! Why a relay does not start.

use std::{io, net::SocketAddr};

/// Why a relay does not start. Once it runs, nothing ends it but its shutdown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A limit with which nothing could be served.
    #[error("limits.{name} must be at least {least}")]
    Limit {
        /// The limit.
        name: &'static str,
        /// The least that it may be.
        least: u64,
    },
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}
