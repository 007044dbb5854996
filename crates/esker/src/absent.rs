//! What is told of a name that is not in the store: what there is instead.

use crate::{config::nearest, output::printable};

/// What was named is not in the store.
#[derive(Debug, thiserror::Error)]
#[error("no {what} `{}` in the store; {instead}", printable(.name))]
pub(crate) struct Absent {
    what: &'static str,
    name: String,
    instead: String,
}

/// Finds what was named among all that there are, by its kind.
pub(crate) fn find<T>(
    what: &'static str,
    name: &str,
    mut all: Vec<T>,
    name_of: impl Fn(&T) -> &str,
) -> Result<T, Absent> {
    match all.iter().position(|one| name_of(one) == name) {
        Some(place) => Ok(all.swap_remove(place)),
        None => Err(Absent {
            what,
            name: name.to_owned(),
            instead: instead(name, &all.iter().map(name_of).collect::<Vec<_>>()),
        }),
    }
}

/// Names that are shown where none is near.
const SHOWN: usize = 10;

fn instead(name: &str, names: &[&str]) -> String {
    // An outbox's queue ends with the outbox's name.
    let whole = names
        .iter()
        .find(|one| one.strip_suffix(name).is_some_and(|rest| rest.ends_with(':')));
    let whole = whole.map(|&name| name.to_owned());
    if let Some(near) = whole.or_else(|| nearest(name, names.iter().map(|&name| name.to_owned()))) {
        return format!("did you mean `{}`?", printable(&near));
    }
    let shown = names.iter().take(SHOWN);
    let shown: Vec<String> = shown.map(|name| format!("`{}`", printable(name))).collect();
    match names.len() {
        0 => "there is none".to_owned(),
        1 => format!("there is {}", shown[0]),
        all if all <= SHOWN => format!("there are {}", shown.join(", ")),
        all => format!("there are {} and {} more", shown.join(", "), all - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn of_a_name_that_is_not_there_it_is_told_what_there_is() {
        let told = |name: &str, names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            find("queue", name, names, String::as_str).map_err(|absent| absent.to_string())
        };
        assert_eq!(told("mails", &["work", "mails"]), Ok("mails".into()));
        let none = |rest: &str| Err(format!("no queue `mials` in the store; {rest}"));
        assert_eq!(told("mials", &["mails", "work"]), none("did you mean `mails`?"));
        assert_eq!(
            told("mials", &["box:mials", "mail"]),
            none("did you mean `box:mials`?")
        );
        assert_eq!(told("mials", &[]), none("there is none"));
        assert_eq!(told("mials", &["work"]), none("there is `work`"));
        assert_eq!(told("mials", &["work", "play"]), none("there are `work`, `play`"));
        let many: Vec<String> = (10..23).map(|n| format!("work-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let told = told("mials", &many).unwrap_err();
        assert!(
            told.contains("`work-10`, ") && told.ends_with(", `work-19` and 3 more"),
            "{told}"
        );
    }
}
