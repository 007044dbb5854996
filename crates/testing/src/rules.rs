//! A suite's list of its rules' tests, which must leave none out.

/// Checks that each `pub async fn` of these topics, given by name and source, is in the suite's list once.
///
/// # Panics
///
/// When one is not, with its name.
pub fn all_are_listed(list: &str, topics: &[(&str, &str)]) {
    for (topic, source) in topics {
        for line in source.lines() {
            let Some(function) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let name = function.split(['(', '<']).next().unwrap();
            let entries = list.lines().filter(|line| line.trim() == format!("{name},"));
            assert_eq!(entries.count(), 1, "{topic}::{name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::all_are_listed;

    const TOPIC: &str =
        "pub async fn one(world: World) {\n}\n\npub async fn two<E: Engine>() {\n}\n\nfn helper() {}\n";

    #[test]
    fn a_whole_list_is_good() {
        all_are_listed("topic: [\n    one,\n    two,\n],", &[("topic", TOPIC)]);
    }

    #[test]
    #[should_panic(expected = "topic::two")]
    fn a_rule_that_is_left_out_is_told() {
        all_are_listed("topic: [\n    one,\n],", &[("topic", TOPIC)]);
    }

    #[test]
    #[should_panic(expected = "topic::one")]
    fn a_rule_that_is_there_twice_is_told() {
        all_are_listed("one,\ntwo,\none,", &[("topic", TOPIC)]);
    }
}
