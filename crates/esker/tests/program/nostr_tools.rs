//! nostr-tools from npm, unchanged, against the running program: `nostr-tools/client.mjs` says what it does.

use std::process::Command;

use crate::support::{Folder, Relay, tests_folder};

#[test]
fn nostr_tools_publishes_queries_subscribes_counts_deletes_and_replaces() {
    let script = tests_folder().join("nostr-tools/client.mjs");
    assert!(
        script.with_file_name("node_modules").exists(),
        "run ./test, which installs nostr-tools"
    );
    let folder = Folder::new();
    let relay = Relay::start(&folder, &[]);
    let output = Command::new("node")
        .arg(&script)
        .arg(&relay.url)
        .output()
        .expect("node, which ./test installs");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("all steps passed\n"), "{text}");
}
