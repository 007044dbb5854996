//! How the database is reached and used: every bound of the store, with its default.

use std::time::Duration;

use esker_coord_api::Clock;

use crate::Error;

/// How the database is reached and used. `Options::default()` suits a server. Durations are more than zero and at most a
/// year.
#[derive(Debug, Clone)]
pub struct Options {
    /// The schema that holds everything of the store. Stores in different schemas of one database do
    /// not see each other. Default `esker`; also `?schema=` in the URL.
    pub schema: String,
    /// Whether a schema that is not there is made; else opening fails with [`Error::NoSchema`]. Default true.
    pub create: bool,
    /// Connections that the pool holds at most; the listening connection is one more. Default 10; also
    /// `?pool_size=` in the URL.
    pub pool_size: usize,
    /// The URL of the listening connection where the main one leads to a transaction pooler, which delivers no
    /// notifications (CW-08). Default: the main URL; also `?listener=` in the URL, percent-encoded.
    pub listener_url: Option<String>,
    /// How long connecting may take. Default 5 s; `connect_timeout` in the URL wins.
    pub connect_timeout: Duration,
    /// How long an operation may take, waiting for a connection included, before it is cancelled on the server and
    /// given up; opening's own steps, as the migration, and making the listening connection are each bounded by it, too.
    /// Default 30 s.
    pub operation_timeout: Duration,
    /// How often waiters look again though nothing woke them (CW-05). Default 5 s.
    pub safety_interval: Duration,
    /// How often waiters look again while no notifications arrive at all (CW-08). Default 500 ms.
    pub poll_interval: Duration,
    /// How often the listening connection is tried, so that one that died quietly is noticed, and how long it may take to
    /// answer. Default 10 s.
    pub heartbeat: Duration,
    /// How long the notification that the store sends itself at start may take to come back, before the store says
    /// that it polls (CW-08). Default 2 s.
    pub probe_timeout: Duration,
    /// Where the time comes from. Default `None`: the database's clock, so that hosts agree (CX-04). Tests give one that
    /// they drive.
    pub clock: Option<Clock>,
    /// Operations of one kind that may wait to be batched; more wait for a place, asynchronously. Default 1,024.
    pub waiting: usize,
    /// Operations in one batch, which is one statement and one commit. Default 256.
    pub max_batch: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "esker".to_owned(),
            create: true,
            pool_size: 10,
            listener_url: None,
            connect_timeout: Duration::from_secs(5),
            operation_timeout: Duration::from_secs(30),
            safety_interval: Duration::from_secs(5),
            poll_interval: Duration::from_millis(500),
            heartbeat: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(2),
            clock: None,
            waiting: 1024,
            max_batch: 256,
        }
    }
}

impl Options {
    /// Most bytes that Postgres keeps of an identifier.
    const IDENTIFIER: usize = 63;

    /// What timers hold, and more than anybody waits.
    const LONGEST: Duration = Duration::from_hours(365 * 24);

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |option, reason| Err(Error::InvalidOption { option, reason });
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=Self::IDENTIFIER).contains(&self.schema.len()) || !self.schema.bytes().all(plain) {
            return refuse("schema", "must have 1 to 63 letters, digits, - and _");
        }
        if self.schema.starts_with("pg_") || self.schema == "information_schema" {
            return refuse("schema", "is reserved by Postgres");
        }
        // A transaction that a caller holds takes a connection, and what it waits for may need another.
        if !(2..=10_000).contains(&self.pool_size) {
            return refuse("pool_size", "must be between 2 and 10000");
        }
        for (option, value) in [("waiting", self.waiting), ("max_batch", self.max_batch)] {
            if !(1..=1 << 20).contains(&value) {
                return refuse(option, "must be between 1 and 1048576");
            }
        }
        let durations = [
            ("connect_timeout", self.connect_timeout),
            ("operation_timeout", self.operation_timeout),
            ("safety_interval", self.safety_interval),
            ("poll_interval", self.poll_interval),
            ("heartbeat", self.heartbeat),
            ("probe_timeout", self.probe_timeout),
        ];
        for (option, value) in durations {
            if value.is_zero() || value > Self::LONGEST {
                return refuse(option, "must be more than zero and at most 365 days");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Options)) -> &'static str {
        let mut options = Options::default();
        change(&mut options);
        match options.check() {
            Err(Error::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cx_02_options_that_cannot_work_are_refused_by_name() {
        assert!(Options::default().check().is_ok());
        assert_eq!(refused(|o| o.schema = String::new()), "schema");
        assert_eq!(refused(|o| o.schema = "s".repeat(64)), "schema");
        assert_eq!(refused(|o| o.schema = "pg_mine".to_owned()), "schema");
        for bad in ["a\0b", "a\"b", "a'b", "a$$b", "{schema}", "é"] {
            assert_eq!(refused(|o| o.schema = bad.to_owned()), "schema", "{bad}");
        }
        assert_eq!(refused(|o| o.pool_size = 1), "pool_size");
        assert_eq!(refused(|o| o.waiting = 0), "waiting");
        assert_eq!(refused(|o| o.max_batch = 0), "max_batch");
        assert_eq!(refused(|o| o.heartbeat = Duration::ZERO), "heartbeat");
        assert_eq!(refused(|o| o.poll_interval = Duration::ZERO), "poll_interval");
    }

    #[test]
    fn cx_05_a_duration_that_no_timer_holds_is_refused_by_name() {
        assert_eq!(refused(|o| o.connect_timeout = Duration::MAX), "connect_timeout");
        assert_eq!(
            refused(|o| o.operation_timeout = Duration::MAX),
            "operation_timeout"
        );
        assert_eq!(refused(|o| o.safety_interval = Duration::MAX), "safety_interval");
        assert_eq!(refused(|o| o.poll_interval = Duration::MAX), "poll_interval");
        assert_eq!(refused(|o| o.heartbeat = Duration::MAX), "heartbeat");
        assert_eq!(refused(|o| o.probe_timeout = Duration::MAX), "probe_timeout");
        let year = Options {
            operation_timeout: Duration::from_hours(365 * 24),
            ..Options::default()
        };
        assert!(year.check().is_ok());
    }
}
