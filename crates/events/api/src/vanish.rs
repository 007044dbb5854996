//! Requests to vanish (NIP-62, kind 62).

use esker_nostr::{Event, EventFields, kind};

/// The tag value that speaks to every relay.
const ALL_RELAYS: &str = "ALL_RELAYS";

/// Whether a vanish request speaks to this store (STORE-D06): a `relay` tag names its URL, compared normalised,
/// or is `ALL_RELAYS`. No other kind ever does.
pub fn honours(request: &Event, relay_url: Option<&str>) -> bool {
    let own = relay_url.map(normalise).filter(|url| !url.is_empty());
    request.kind() == kind::VANISH
        && request
            .tags()
            .filter(|tag| tag.name() == "relay")
            .filter_map(|tag| tag.value())
            .any(|value| value == ALL_RELAYS || own.as_ref().is_some_and(|own| *own == normalise(value)))
}

/// A relay URL in one spelling: scheme and host in lower case, no default port, no trailing slash, no fragment,
/// no white space around it. What is not `scheme://host…` stays as it is.
pub fn normalise(url: &str) -> String {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    let scheme = scheme.to_ascii_lowercase();
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let (user, host) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let (host, port) = split_port(host);
    if scheme.is_empty() || host.is_empty() {
        return url.into();
    }
    let default = match scheme.as_str() {
        "ws" | "http" => Some(80),
        "wss" | "https" => Some(443),
        _ => None,
    };
    let port = port
        .filter(|port| Some(*port) != default)
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!(
        "{scheme}://{user}{}{port}{}{query}",
        host.to_ascii_lowercase(),
        path.trim_end_matches('/')
    )
}

/// Host and port; the colons of an IPv6 address in brackets are the host's.
fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, "")) => (name, None),
        Some((name, digits)) => digits.parse().map_or((host, None), |port| (name, Some(port))),
        None => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use esker_nostr::Keys;

    use super::{honours, normalise};

    fn request(relays: &[&str]) -> esker_nostr::Event {
        let tags: Vec<_> = relays.iter().map(|relay| vec!["relay", relay]).collect();
        Keys::from_seed(1).sign(62, 1, &tags, "")
    }

    #[test]
    fn store_d06_a_relay_url_has_one_spelling() {
        for url in [
            "wss://relay.example",
            "wss://relay.example/",
            "WSS://Relay.Example//",
            "wss://relay.example:443",
            "wss://relay.example:443/",
            "wss://relay.example:/",
            "wss://relay.example/#top",
            " wss://relay.example\n",
        ] {
            assert_eq!(normalise(url), "wss://relay.example", "{url:?}");
        }
        assert_eq!(normalise("ws://Relay.example:80/"), "ws://relay.example");
        assert_eq!(normalise("ws://relay.example:443/"), "ws://relay.example:443");
        assert_eq!(
            normalise("wss://relay.example:07777/Path/"),
            "wss://relay.example:7777/Path"
        );
        assert_eq!(
            normalise("wss://relay.example/?Key=A/"),
            "wss://relay.example?Key=A/"
        );
        assert_eq!(normalise("wss://relay.example?x#y?z"), "wss://relay.example?x");
        assert_eq!(normalise("ws://[::1]:80/"), "ws://[::1]");
        assert_eq!(normalise("ws://[::1]"), "ws://[::1]");
        assert_eq!(normalise("ws://[FE80::1]:7777"), "ws://[fe80::1]:7777");
        assert_eq!(
            normalise("wss://User:Pass@Relay.example:443"),
            "wss://User:Pass@relay.example"
        );
    }

    #[test]
    fn store_d06_what_differs_in_meaning_stays_different() {
        let own = normalise("wss://relay.example");
        for url in [
            "ws://relay.example",
            "wss://relay.example:80",
            "wss://relay.example/inbox",
            "wss://relay.example.org",
            "wss://a.relay.example",
            "relay.example",
            "wss:relay.example",
            "wss://",
            "://relay.example",
            "",
        ] {
            assert_ne!(normalise(url), own, "{url:?}");
        }
    }

    #[test]
    fn store_d06_a_request_acts_for_this_relay_or_for_all() {
        let own = Some("wss://Relay.example:443/");
        assert!(honours(&request(&["wss://relay.example"]), own));
        assert!(honours(
            &request(&["wss://other.example", "wss://relay.example/"]),
            own
        ));
        assert!(honours(&request(&["ALL_RELAYS"]), own));
        assert!(!honours(&request(&["wss://other.example"]), own));
        assert!(!honours(&request(&["all_relays"]), own));
        assert!(!honours(&request(&[]), own));
    }

    #[test]
    fn store_d06_a_store_without_a_url_honours_only_all_relays() {
        for none in [None, Some("")] {
            assert!(honours(&request(&["ALL_RELAYS"]), none));
            assert!(!honours(&request(&["wss://relay.example", ""]), none));
        }
    }

    #[test]
    fn store_d06_only_kind_62_and_only_the_relay_tag_count() {
        let keys = Keys::from_seed(1);
        assert!(!honours(
            &keys.sign(1, 1, &[vec!["relay", "ALL_RELAYS"]], ""),
            None
        ));
        assert!(!honours(
            &keys.sign(62, 1, &[vec!["r", "ALL_RELAYS"], vec!["relay"]], "ALL_RELAYS"),
            None
        ));
    }
}
