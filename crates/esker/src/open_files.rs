//! The limit of open files: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as the system allows.
pub(crate) fn raise() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A limit that stays low shows itself where it is reached.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}
