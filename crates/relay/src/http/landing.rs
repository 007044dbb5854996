//! The page that a browser sees: what this relay is, what it allows, how to connect, what it does right now.

use std::{
    fmt::{self, Write},
    time::Instant,
};

use esker_nostr::message::MAX_ID_CHARACTERS;

use crate::{Counters, Info, Limits, info::SUPPORTED_NIPS};

/// Nothing is run, nothing is loaded but the operator's pictures.
pub(super) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; base-uri 'none'; form-action 'none'";

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{max-width:44rem;margin:2rem auto;padding:0 1rem}\
h1{margin:0}h2{margin:2rem 0 .5rem;font-size:1.1rem}\
header{display:flex;gap:1rem;align-items:center}header img{width:64px;height:64px;border-radius:12px}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.5rem;margin:0}dd{margin:0}\
code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}";

/// Text as HTML.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// The page as of now.
pub(super) fn page(info: &Info, limits: &Limits, counters: &Counters, started: Instant) -> String {
    let mut html = String::with_capacity(4096);
    write(&mut html, info, limits, counters, started).expect("writing to a string cannot fail");
    html
}

fn write(
    html: &mut String,
    info: &Info,
    limits: &Limits,
    counters: &Counters,
    started: Instant,
) -> fmt::Result {
    let (name, description) = (Text(&info.name), Text(&info.description));
    write!(
        html,
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{name}</title><style>{STYLE}</style><header>"
    )?;
    if !info.icon.is_empty() {
        write!(html, "<img src=\"{}\" alt=\"\">", Text(&info.icon))?;
    }
    write!(
        html,
        "<div><h1>{name}</h1><div>{description}</div></div></header>"
    )?;
    html.push_str(
        "<h2>Connect</h2><p>This is a <a href=\"https://nostr.com\">Nostr</a> relay. Add this page's address to \
         your client, with <code>wss://</code> for <code>https://</code> or <code>ws://</code> for \
         <code>http://</code>.</p>",
    );
    html.push_str("<h2>Protocol</h2><dl><dt>NIPs</dt><dd>");
    for (index, nip) in SUPPORTED_NIPS.iter().enumerate() {
        write!(html, "{}{nip}", if index == 0 { "" } else { ", " })?;
    }
    write!(
        html,
        "</dd><dt>Software</dt><dd>esker {}</dd>",
        env!("CARGO_PKG_VERSION")
    )?;
    for (label, value) in [("Operator", &info.pubkey), ("Contact", &info.contact)] {
        if !value.is_empty() {
            row(html, label, format_args!("<code>{}</code>", Text(value)))?;
        }
    }
    for (label, url) in [
        ("Posting policy", &info.posting_policy),
        ("Terms of service", &info.terms_of_service),
        ("Privacy policy", &info.privacy_policy),
    ] {
        if !url.is_empty() {
            row(html, label, format_args!("<a href=\"{0}\">{0}</a>", Text(url)))?;
        }
    }
    html.push_str("</dl><h2>Limits</h2><dl>");
    row(html, "Message", format_args!("{} bytes", limits.message_bytes))?;
    row(
        html,
        "Event",
        format_args!("{} bytes, {} tags", limits.event_bytes, limits.event_tags),
    )?;
    row(
        html,
        "Event time",
        format_args!("at most {} s ahead", limits.created_at_ahead_secs),
    )?;
    row(
        html,
        "Subscriptions",
        format_args!("{} per connection", limits.subscriptions),
    )?;
    row(
        html,
        "Subscription id",
        format_args!("{MAX_ID_CHARACTERS} characters"),
    )?;
    row(
        html,
        "Filters",
        format_args!("{} per subscription", limits.filters),
    )?;
    let (default, max) = (limits.limit_default, limits.limit_max);
    row(
        html,
        "Stored events",
        format_args!("{default} per filter, up to {max} if asked"),
    )?;
    html.push_str("</dl><h2>Since the start</h2><dl>");
    row(html, "Up", format_args!("{} s", started.elapsed().as_secs()))?;
    for (label, figure) in [
        ("Connections", counters.sessions_open.get()),
        ("Subscriptions", counters.subscriptions_open.get()),
        ("Events stored", counters.events_stored.get()),
        ("Events refused", counters.refused_in_all()),
        ("Queries", counters.queries.get()),
        ("Frames sent", counters.frames_sent.get()),
    ] {
        row(html, label, format_args!("{figure}"))?;
    }
    html.push_str("</dl></html>\n");
    Ok(())
}

fn row(html: &mut String, label: &str, value: fmt::Arguments<'_>) -> fmt::Result {
    write!(html, "<dt>{label}</dt><dd>{value}</dd>")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::page;
    use crate::{Counters, Info, Limits};

    #[test]
    fn relay_09_the_page_escapes_what_the_operator_wrote() {
        let info = Info {
            name: "<script>alert('x')</script>".into(),
            icon: "https://x/\" onerror=\"y".into(),
            ..Info::default()
        };
        let html = page(&info, &Limits::default(), &Counters::default(), Instant::now());
        assert!(!html.contains("<script>") && !html.contains("\" onerror"));
        assert!(html.contains("&lt;script&gt;"));
    }
}
