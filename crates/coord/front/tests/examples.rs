//! The examples, run as their readers run them: on a new file, and on a new database where the build has Postgres.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used)]

use std::{env, process::Command};

/// Runs an example, which must succeed; what it printed.
fn run(example: &str, url: Option<&str>) -> String {
    // Beside this test's folder, where cargo puts them with the tests.
    let test = env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(example);
    let output = Command::new(&path).args(url).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        output.status.success(),
        "{example}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn told(example: &str) -> &'static str {
    match example {
        "order" => "the third order failed: there is no soup\nshipping order 1\n",
        "webhook" => {
            "attempt 1: the hook answers 503\nattempt 2: the hook answers 204\ndelivered 1, tried again 1\n"
        }
        "schedule" => "runner one has ended\nthe boundary at ",
        _ => {
            "undone: the process dies here\napplied 4 events\napplied 4 events\napplied 2 events\nthe total is 55\n"
        }
    }
}

macro_rules! examples {
    ($($test:ident: $example:literal;)*) => {$(
        #[cfg(feature = "sqlite")]
        #[test]
        fn $test() {
            let printed = run($example, None);
            assert!(printed.contains(told($example)), "{printed}");
        }
    )*};
}

examples! {
    ct_02_the_example_of_an_order_runs: "order";
    co_02_the_example_of_an_outbox_runs: "webhook";
    cd_02_the_example_of_a_schedule_runs: "schedule";
    cs_07_the_example_of_a_projection_runs: "projection";
}

#[cfg(feature = "postgres")]
#[test]
fn cx_02_the_examples_run_on_postgres_by_the_url_alone() {
    let database = esker_testing::postgres::Database::new();
    for example in ["order", "webhook", "schedule", "projection"] {
        let printed = run(example, Some(&database.url()));
        assert!(printed.contains(told(example)), "{printed}");
    }
}
