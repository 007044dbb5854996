//! The configuration as text: the effective one with its origins, and the reference of all keys.

use std::fmt::Write as _;

use serde_json::json;

use super::{
    Config, Setting,
    keys::{KEYS, Key},
};

impl Config {
    /// TOML with each value's origin beside it: it can be used as a file again.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = String::new();
        let assignments: Vec<_> = self
            .by_key()
            .map(|(key, setting)| (key, format!("{} = {}", key.section_and_name().1, setting.value)))
            .collect();
        let width = assignments
            .iter()
            .map(|(_, line)| line.chars().count())
            .max()
            .unwrap_or(0)
            .min(50);
        let mut section = "";
        for ((key, line), (_, setting)) in assignments.iter().zip(self.by_key()) {
            if key.section_and_name().0 != section {
                section = key.section_and_name().0;
                let _ = writeln!(text, "\n[{section}]");
            }
            let _ = writeln!(text, "{line:width$}  # {}", setting.origin);
        }
        text
    }

    /// One object with value and origin per key.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.by_key()
            .map(|(key, setting)| {
                (
                    key.name.to_owned(),
                    json!({ "value": setting.value, "origin": setting.origin.to_string() }),
                )
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn by_key(&self) -> impl Iterator<Item = (&'static Key, &Setting)> {
        KEYS.iter().zip(&self.settings)
    }
}

/// The reference of all keys, in Markdown; `docs/configuration.md` is this text.
pub(crate) fn reference() -> String {
    let mut text = String::from(REFERENCE_HEAD);
    let mut section = "";
    for key in KEYS {
        let (of, name) = key.section_and_name();
        if of != section {
            section = of;
            let _ = writeln!(text, "\n## `[{section}]`");
        }
        let default = Setting::from_default(key.default).value;
        let _ = writeln!(
            text,
            "\n- **`{name}`** = `{default}`: {}\n  Takes {}; variable `{}`.",
            key.doc,
            key.kind.describe(),
            key.variable()
        );
    }
    text
}

const REFERENCE_HEAD: &str = "\
# Configuration

Flags win over environment variables, those over the file, that over the defaults. The file is the one
`--config` names, else `./esker.toml` if it exists. `--set KEY=VALUE` sets any key on the command line, the key
with its section (`--set relay.name=Home`). `esker config` prints what is in force and where each value comes
from; a key that does not exist, or a value that cannot be, stops the start with its line.

This page is what `esker config --reference` prints.

## Above all sections
";
