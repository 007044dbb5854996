//! The URL of a store: the driver's parameters, and the store's own taken out of the query.

use std::{str::FromStr, time::Duration};

use tokio_postgres::{Config, config::SslMode};

use crate::{
    Error, Options,
    tls::{Connector, Verify},
};

/// Where a connection goes: the driver's configuration and how TLS is spoken.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) tls: Connector,
}

/// Reads `postgres://user@host/database?…`: parameters of libpq as far as the driver knows them, `sslmode` and
/// `sslrootcert` as libpq means them, and the store's own `schema`, `pool_size` and `listener`, which go to `options`.
pub(crate) fn parse(url: &str, options: &mut Options) -> Result<Target, Error> {
    let bad = |reason: String| Error::Url(reason);
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    if !matches!(scheme, Some("postgres" | "postgresql")) {
        return Err(bad("must begin with postgres:// or postgresql://".to_owned()));
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut kept, mut mode, mut roots) = (Vec::new(), Verify::Prefer, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, raw) = pair
            .split_once('=')
            .ok_or_else(|| bad(format!("has a parameter without a value: {pair}")))?;
        match name {
            "schema" => options.schema = decode(raw)?,
            "pool_size" => {
                options.pool_size = raw
                    .parse()
                    .map_err(|_| bad("has a pool_size that is not a number".to_owned()))?;
            }
            "listener" => options.listener_url = Some(decode(raw)?),
            "sslrootcert" => roots = Some(decode(raw)?),
            "sslmode" => {
                mode = match raw {
                    "disable" => Verify::Disable,
                    "prefer" => Verify::Prefer,
                    "require" => Verify::Require,
                    "verify-ca" => Verify::Chain,
                    "verify-full" => Verify::Full,
                    _ => {
                        let known = "disable, prefer, require, verify-ca, verify-full";
                        return Err(bad(format!("has an unknown sslmode; there are: {known}")));
                    }
                };
            }
            _ => kept.push(pair),
        }
    }
    let plain = match kept.as_slice() {
        [] => base.to_owned(),
        kept => format!("{base}?{}", kept.join("&")),
    };
    // The driver's error says which parameter, and never repeats the password.
    let mut config = Config::from_str(&plain).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        bad(format!("cannot be used: {cause}"))
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(bad("names no host: postgres://user@host/database".to_owned()));
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.connect_timeout);
    }
    if config.get_application_name().is_none() {
        config.application_name("esker");
    }
    // A peer that is gone without a word is noticed in about half a minute, not in two hours: by what it does not
    // acknowledge, and while nothing is sent, by its silence.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(30));
    }
    config.keepalives_idle(Duration::from_secs(15));
    config.keepalives_interval(Duration::from_secs(5));
    config.keepalives_retries(3);
    config.ssl_mode(match mode {
        Verify::Disable => SslMode::Disable,
        Verify::Prefer => SslMode::Prefer,
        Verify::Require | Verify::Chain | Verify::Full => SslMode::Require,
    });
    let tls = Connector::new(mode, roots.as_deref())?;
    Ok(Target { config, tls })
}

fn decode(raw: &str) -> Result<String, Error> {
    let bad = || Error::Url("has a parameter with a bad percent-encoding".to_owned());
    let (mut bytes, mut out) = (raw.bytes(), Vec::with_capacity(raw.len()));
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next().ok_or_else(bad)?, bytes.next().ok_or_else(bad)?];
                let text = str::from_utf8(&digits).map_err(|_| bad())?;
                u8::from_str_radix(text, 16).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(url: &str) -> String {
        parse(url, &mut Options::default())
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn cx_02_the_stores_own_parameters_are_taken_out_of_the_url() {
        let mut options = Options::default();
        let url = "postgres://me:pass@db:5433/app?schema=a%2Db&pool_size=7&listener=postgres%3A%2F%2Fdirect%2Fapp\
            &connect_timeout=9&sslmode=disable&application_name=mine";
        let target = parse(url, &mut options).unwrap();
        assert_eq!((options.schema.as_str(), options.pool_size), ("a-b", 7));
        assert_eq!(options.listener_url.as_deref(), Some("postgres://direct/app"));
        assert_eq!(target.config.get_dbname(), Some("app"));
        assert_eq!(target.config.get_ports(), [5433]);
        assert_eq!(target.config.get_application_name(), Some("mine"));
        assert_eq!(target.config.get_connect_timeout(), Some(&Duration::from_secs(9)));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn cw_08_a_peer_that_is_gone_is_noticed_by_what_it_does_not_acknowledge() {
        let of = |url| {
            *parse(url, &mut Options::default())
                .unwrap()
                .config
                .get_tcp_user_timeout()
                .unwrap()
        };
        assert_eq!(of("postgres://db/app"), Duration::from_secs(30));
        assert_eq!(of("postgres://db/app?tcp_user_timeout=7"), Duration::from_secs(7));
    }

    #[test]
    fn cx_02_a_url_that_cannot_be_used_says_why_and_keeps_its_password() {
        assert!(reason("mysql://db/app").contains("postgres://"));
        assert!(reason("db/app").contains("postgres://"));
        assert!(reason("postgres:///app").contains("no host"));
        assert!(reason("postgres://db/app?pool_size=many").contains("pool_size"));
        assert!(reason("postgres://db/app?schema").contains("schema"));
        assert!(reason("postgres://db/app?schema=%zz").contains("percent"));
        assert!(reason("postgres://db/app?sslmode=maybe").contains("verify-full"));
        let unknown = reason("postgres://me:secret@db/app?colour=red");
        assert!(
            unknown.contains("colour") && !unknown.contains("secret"),
            "{unknown}"
        );
        let port = reason("postgres://me:secret@db:port/app");
        assert!(port.contains("port") && !port.contains("secret"), "{port}");
    }
}
