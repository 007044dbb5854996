//! Who is compared with whom, and in what.

/// What is measured, in the order in which it is printed; a contender knows them by these names.
pub(crate) const MEASURES: &[&str] = &[
    "enqueue-1",
    "enqueue-64",
    "enqueue-batch",
    "claim-1",
    "claim-8",
    "claim-32",
    "claim-128",
    "claim-1x64",
    "claim-8x16",
    "depth-1000",
    "depth-100000",
    "publish-1",
    "publish-64",
    "publish-batch",
    "read",
    "wake",
    "idle",
];

/// Figures as people read them.
pub(crate) const FIGURES: &[(&str, &str)] = &[
    ("enqueue-1", "enqueue, 1 caller"),
    ("enqueue-64", "enqueue, 64 callers, one by one"),
    ("enqueue-batch", "enqueue, 1,000 in a transaction"),
    ("claim-1", "claim 1 and acknowledge"),
    ("claim-8", "claim 8 and acknowledge"),
    ("claim-32", "claim 32 and acknowledge"),
    ("claim-128", "claim 128 and acknowledge"),
    ("claim-1x64", "claim 1 and acknowledge, 64 workers"),
    ("claim-8x16", "claim 8 and acknowledge, 16 workers"),
    ("depth-1000", "one claim, 1,000 waiting, p50"),
    ("depth-100000", "one claim, 100,000 waiting, p50"),
    ("publish-1", "publish, 1 caller"),
    ("publish-64", "publish, 64 callers, one by one"),
    ("publish-batch", "publish, 1,000 in a transaction"),
    ("read", "read, pages of 1,000"),
    ("wake-p50", "wake of another process, p50"),
    ("wake-p90", "wake of another process, p90"),
    ("wake-p99", "wake of another process, p99"),
    ("idle", "100 listeners, idle"),
];

/// Contenders that do the same with the same durability.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) postgres: bool,
    /// The first is Esker.
    pub(crate) columns: &'static [Column],
}

/// One contender, in one way to use it.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// The folder under the root in which its program is.
    pub(crate) folder: &'static str,
    pub(crate) program: &'static str,
    pub(crate) variant: &'static str,
    /// Only measures whose names begin so tell something; empty for all.
    only: &'static [&'static str],
}

impl Column {
    /// Whether it is measured in this.
    pub(crate) fn measures(&self, measure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| measure.starts_with(name))
    }
}

const ESKER: (&str, &str) = ("target/release", "contender-esker");
const ROWS: (&str, &str) = ("target/release", "contender-rows");
const ALKSTORE: (&str, &str) = ("target/peers/release", "contender-alkstore");
const HONKER: (&str, &str) = ("target/peers/release", "contender-honker");

const fn column(
    title: &'static str,
    (folder, program): (&'static str, &'static str),
    variant: &'static str,
) -> Column {
    Column {
        title,
        folder,
        program,
        variant,
        only: &[],
    }
}

const fn partly(column: Column, only: &'static [&'static str]) -> Column {
    Column { only, ..column }
}

pub(crate) const TABLES: &[Table] = &[
    Table {
        title: "SQLite, each commit on the disk before it is answered (Esker's default)",
        postgres: false,
        columns: &[
            column("Esker", ESKER, "default"),
            column("alkstore, synchronous=FULL", ALKSTORE, "full"),
            column("honker, synchronous=FULL", HONKER, "full"),
        ],
    },
    Table {
        title: "SQLite, a power cut can lose the newest commits (the others' default)",
        postgres: false,
        columns: &[
            column("Esker, synchronous=normal", ESKER, "normal"),
            column("alkstore", ALKSTORE, "default"),
            column("honker", HONKER, "default"),
            partly(
                column("honker, kernel watcher", HONKER, "kernel"),
                &["wake", "idle"],
            ),
        ],
    },
    Table {
        title: "Postgres, synchronous_commit=on",
        postgres: true,
        columns: &[
            column("Esker", ESKER, "default"),
            column("alkstore", ALKSTORE, "default"),
            // A listener is a connection there: a hundred are no fair figure.
            partly(
                column("row at a time", ROWS, "default"),
                &["enqueue", "claim", "depth", "publish", "read", "wake"],
            ),
            partly(column("row at a time, unordered", ROWS, "sequence"), &["publish"]),
        ],
    },
];
