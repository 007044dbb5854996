//! The effective configuration: flags over `ESKER_*` variables over a TOML file over defaults, each value with
//! its origin.

mod file;
mod keys;
mod render;

pub(crate) use keys::nearest;
pub(crate) use render::reference;

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

use keys::{Default, KEYS, Kind};

use crate::exit::Usage;

/// The variable in which `lock run` hands its command the lock's fence: no setting.
pub(crate) const FENCE: &str = "ESKER_FENCE";

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// A text or a choice.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Bool(bool),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nothing set it.
    Default,
    /// A file, and the line in it.
    File(PathBuf, usize),
    /// An environment variable.
    Variable(String),
    /// A flag.
    Flag(String),
}

/// The value of one key, and where it comes from.
#[derive(Debug, Clone)]
struct Setting {
    value: Value,
    origin: Origin,
}

/// The effective configuration.
#[derive(Debug)]
pub(crate) struct Config {
    file: Option<PathBuf>,
    // One for each of `KEYS`, in their order.
    settings: Vec<Setting>,
}

/// Everything that is wrong with a configuration, so that it is mended in one go.
#[derive(Debug, Default)]
struct Problems(Vec<String>);

impl Config {
    /// Puts the configuration together. Without a `file`, ./esker.toml is read if it exists. Flags are their
    /// spelling, key and value; `sets` are `key=value`, which count as flags.
    pub(crate) fn load(
        file: Option<&Path>,
        flags: Vec<(String, &'static str, String)>,
        sets: &[String],
    ) -> Result<Self, Usage> {
        let mut config = Self {
            file: None,
            settings: KEYS
                .iter()
                .map(|key| Setting::from_default(key.default))
                .collect(),
        };
        let mut problems = Problems::default();
        let implied = Path::new("esker.toml");
        if let Some(path) = file.or_else(|| implied.exists().then_some(implied)) {
            let text =
                fs::read_to_string(path).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
            file::read(&text, path, &mut config, &mut problems);
            config.file = Some(path.to_owned());
        }
        config.read_variables(
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))),
            &mut problems,
        );
        for (flag, key, value) in flags {
            config.set_text(key, &value, Origin::Flag(flag), &mut problems);
        }
        for set in sets {
            match set.split_once('=') {
                Some((key, value)) => {
                    config.set_text(
                        key.trim(),
                        value.trim(),
                        Origin::Flag(format!("--set {}", key.trim())),
                        &mut problems,
                    );
                }
                None => problems
                    .0
                    .push(format!("--set {set}: a key, `=` and a value are needed")),
            }
        }
        if problems.0.is_empty() {
            Ok(config)
        } else {
            Err(Usage(problems.0.join("\n       ")))
        }
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> &str {
        match &self.setting(name).value {
            Value::Text(text) => text,
            _ => unreachable!("`{name}` is a text in the table of keys"),
        }
    }

    /// A text, or `None` if it is empty.
    pub(crate) fn some_text(&self, name: &str) -> Option<String> {
        Some(self.text(name))
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    /// A whole number; the table's range keeps it within `u64`.
    pub(crate) fn integer(&self, name: &str) -> u64 {
        match self.setting(name).value {
            Value::Integer(number) => {
                u64::try_from(number).expect("ranges in the table of keys begin at 0 or above")
            }
            _ => unreachable!("`{name}` is a whole number in the table of keys"),
        }
    }

    /// `true` or `false`.
    pub(crate) fn bool(&self, name: &str) -> bool {
        match self.setting(name).value {
            Value::Bool(value) => value,
            _ => unreachable!("`{name}` is `true` or `false` in the table of keys"),
        }
    }

    /// The numbers of a section as the part of the program that they are for takes them.
    pub(crate) fn section<T: serde::de::DeserializeOwned>(&self, section: &str) -> T {
        let values = KEYS.iter().zip(&self.settings).filter_map(|(key, setting)| {
            let (of, name) = key.section_and_name();
            Some((name.to_owned(), serde_json::to_value(&setting.value).ok()?)).filter(|_| of == section)
        });
        serde_json::from_value(values.collect::<serde_json::Map<_, _>>().into())
            .expect("the table of keys has the names and the ranges of the section")
    }

    /// What the relay tells about itself.
    pub(crate) fn info(&self) -> esker_relay::Info {
        let text = |name: &str| self.text(&format!("relay.{name}")).to_owned();
        esker_relay::Info {
            name: text("name"),
            description: text("description"),
            icon: text("icon"),
            banner: text("banner"),
            pubkey: text("pubkey"),
            contact: text("contact"),
            posting_policy: text("posting_policy"),
            terms_of_service: text("terms_of_service"),
            privacy_policy: text("privacy_policy"),
        }
    }

    /// The file that was read.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What flags set, as `key=value`.
    pub(crate) fn set_by_flags(&self) -> impl Iterator<Item = String> {
        let flags = KEYS
            .iter()
            .zip(&self.settings)
            .filter(|(_, setting)| matches!(setting.origin, Origin::Flag(_)));
        flags.map(|(key, setting)| match &setting.value {
            Value::Text(text) => format!("{}={text}", key.name),
            value => format!("{}={value}", key.name),
        })
    }

    /// Whether something set the key.
    pub(crate) fn is_chosen(&self, name: &str) -> bool {
        self.setting(name).origin != Origin::Default
    }

    fn setting(&self, name: &str) -> &Setting {
        let (index, _) = keys::find(name).expect("a name in the table of keys");
        &self.settings[index]
    }

    fn read_variables(
        &mut self,
        variables: impl Iterator<Item = (String, std::ffi::OsString)>,
        problems: &mut Problems,
    ) {
        let set = variables.filter(|(name, _)| name.starts_with("ESKER_") && name != FENCE);
        for (name, value) in set {
            let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
                // Not refused: container platforms set variables of this prefix by themselves for a service of
                // this name (`ESKER_SERVICE_HOST`).
                if let Some(near) = keys::nearest(&name, KEYS.iter().map(keys::Key::variable)) {
                    eprintln!("warning: {name} is no setting; did you mean {near}?");
                }
                continue;
            };
            match value.to_str() {
                Some(value) => self.set_text(key.name, value, Origin::Variable(name), problems),
                None => problems.0.push(format!("{name}: its value is not UTF-8")),
            }
        }
    }

    /// Sets a key from text: a flag or a variable.
    fn set_text(&mut self, name: &str, text: &str, origin: Origin, problems: &mut Problems) {
        let Some((_, key)) = keys::find(name) else {
            problems.unknown(&origin, name);
            return;
        };
        let value = match key.kind {
            Kind::Text(_) | Kind::Choice(_) => Ok(Value::Text(text.to_owned())),
            Kind::Integer(..) => text.replace('_', "").parse().map(Value::Integer).map_err(|_| ()),
            Kind::Bool => text.parse().map(Value::Bool).map_err(|_| ()),
        };
        match value {
            Ok(value) => self.set(name, value, origin, problems),
            Err(()) => problems.0.push(format!(
                "{origin}: `{name}` takes {}, not `{text}`",
                key.kind.describe()
            )),
        }
    }

    /// Sets a key if the value is one that it takes.
    fn set(&mut self, name: &str, value: Value, origin: Origin, problems: &mut Problems) {
        let Some((index, key)) = keys::find(name) else {
            problems.unknown(&origin, name);
            return;
        };
        let refusal = match (key.kind, &value) {
            (Kind::Text(check), Value::Text(text)) => check(text)
                .err()
                .map(|why| format!("`{name}` cannot be `{text}`: {why}")),
            (Kind::Choice(choices), Value::Text(text)) if choices.contains(&text.as_str()) => None,
            (Kind::Choice(choices), Value::Text(text)) => {
                let near = keys::nearest(text, choices.iter().map(|&choice| choice.to_owned()));
                Some(format!(
                    "`{name}` takes {}, not `{text}`{}",
                    key.kind.describe(),
                    did_you_mean(near)
                ))
            }
            (Kind::Integer(min, max), Value::Integer(number)) if (min..=max).contains(number) => None,
            (Kind::Bool, Value::Bool(_)) => None,
            (kind, value) => Some(format!("`{name}` takes {}, not {value}", kind.describe())),
        };
        match refusal {
            Some(refusal) => problems.0.push(format!("{origin}: {refusal}")),
            None => self.settings[index] = Setting { value, origin },
        }
    }
}

impl Problems {
    fn unknown(&mut self, origin: &Origin, name: &str) {
        let near = keys::nearest(name, KEYS.iter().map(|key| key.name.to_owned())).or_else(|| {
            // The right name in no section or in a wrong one.
            let bare = name.rsplit('.').next().unwrap_or(name);
            KEYS.iter()
                .find(|key| key.section_and_name().1 == bare)
                .map(|key| key.name.to_owned())
        });
        self.0
            .push(format!("{origin}: unknown key `{name}`{}", did_you_mean(near)));
    }
}

/// What follows a refused name when a valid one is near.
pub(crate) fn did_you_mean(near: Option<String>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

impl Setting {
    fn from_default(default: Default) -> Self {
        let value = match default {
            Default::Text(text) => Value::Text(text.to_owned()),
            Default::Integer(number) => Value::Integer(number),
            Default::Bool(value) => Value::Bool(value),
        };
        Self {
            value,
            origin: Origin::Default,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// As TOML writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => toml::Value::String(text.clone()).fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
