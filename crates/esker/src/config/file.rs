//! The configuration file: TOML whose every key is known and whose every fault names its line.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Config, Origin, Problems, Value,
    keys::{self, KEYS},
};

/// Reads the text of a file over the configuration.
pub(super) fn read(text: &str, path: &Path, config: &mut Config, problems: &mut Problems) {
    let line_of = |offset: usize| {
        text[..offset.min(text.len())]
            .bytes()
            .filter(|&byte| byte == b'\n')
            .count()
            + 1
    };
    match DeTable::parse(text) {
        Ok(table) => {
            let mut reader = Reader {
                path,
                line_of: &line_of,
                config,
                problems,
            };
            reader.table("", table.get_ref());
        }
        Err(error) => {
            let line = line_of(error.span().map_or(0, |span| span.start));
            problems
                .0
                .push(format!("{}:{line}: {}", path.display(), error.message()));
        }
    }
}

struct Reader<'a> {
    path: &'a Path,
    line_of: &'a dyn Fn(usize) -> usize,
    config: &'a mut Config,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        // In the order of the file, so that its faults are told in that order.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = if section.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{section}.{}", key.get_ref())
            };
            let origin = Origin::File(self.path.to_owned(), (self.line_of)(key.span().start));
            self.entry(&name, value, origin);
        }
    }

    fn entry(&mut self, name: &str, value: &Spanned<DeValue<'_>>, origin: Origin) {
        let is_section = KEYS.iter().any(|key| key.section_and_name().0 == name);
        match value.get_ref() {
            DeValue::Table(table) if is_section => self.table(name, table),
            DeValue::Table(table) if keys::find(name).is_none() && !table.is_empty() => {
                // A mistyped section: what stands in it shows which one was meant.
                self.table(name, table);
            }
            _ if is_section => {
                self.problems.0.push(format!(
                    "{origin}: unknown key `{name}`: it is a section, `[{name}]`"
                ));
            }
            DeValue::String(text) => {
                self.config
                    .set(name, Value::Text(text.to_string()), origin, self.problems);
            }
            DeValue::Boolean(value) => self.config.set(name, Value::Bool(*value), origin, self.problems),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => self
                    .config
                    .set(name, Value::Integer(number), origin, self.problems),
                Err(_) => self
                    .problems
                    .0
                    .push(format!("{origin}: `{name}`: the number {number} is too large")),
            },
            other => match keys::find(name) {
                Some((_, key)) => {
                    let article = if matches!(other, DeValue::Array(_)) {
                        "an"
                    } else {
                        "a"
                    };
                    let takes = key.kind.describe();
                    self.problems.0.push(format!(
                        "{origin}: `{name}` takes {takes}, not {article} {}",
                        other.type_str()
                    ));
                }
                None => self.problems.unknown(&origin, name),
            },
        }
    }
}
