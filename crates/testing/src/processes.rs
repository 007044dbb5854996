//! Tests with several processes: a test starts itself again, and is a child where its environment says so.
//!
//! ```no_run
//! use esker_testing::processes::{Process, child, tell};
//!
//! // In the module `processes` of the test's program.
//! fn an_answer_comes_before_the_end() {
//!     if let Some((place, number)) = child() {
//!         tell("answer", i64::try_from(number + place.len()).unwrap());
//!         return;
//!     }
//!     let mut process = Process::start("an_answer_comes_before_the_end", "here", 38);
//!     assert_eq!(process.told("answer").collect::<Vec<_>>(), [42]);
//!     process.finish();
//! }
//! ```

use std::{
    env,
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

const PLACE: &str = "ESKER_TEST_PLACE";
const NUMBER: &str = "ESKER_TEST_NUMBER";

/// In a child: the place that it was given, such as a folder or a URL, and its number. In the test itself, `None`.
pub fn child() -> Option<(String, usize)> {
    let place = env::var(PLACE).ok()?;
    // The test harness may have begun a line.
    println!();
    Some((place, env::var(NUMBER).unwrap().parse().unwrap()))
}

/// In a child: tells its parent a number, under a word.
pub fn tell(word: &str, n: i64) {
    writeln!(io::stdout().lock(), "{word} {n}").unwrap();
}

/// In a child of [`Process::start_together`]: waits until all of them are here.
pub fn line_up() {
    tell(READY, 0);
    io::stdin().read_line(&mut String::new()).unwrap();
}

/// In a child: blocks until the parent [finishes](Process::finish) it, or is gone.
pub fn until_finished() {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).unwrap();
}

const READY: &str = "ready";

/// A child; killed when it is dropped.
pub struct Process {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this test, of the module `processes`, again.
    pub fn start(test: &str, place: impl AsRef<OsStr>, number: usize) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([&format!("processes::{test}"), "--exact", "--nocapture"])
            .env(PLACE, place)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().map(BufReader::new);
        Self { child, output }
    }

    /// Starts children numbered from 0, which go on from [`line_up`] together.
    pub fn start_together(test: &str, place: impl AsRef<OsStr>, count: usize) -> Vec<Self> {
        let mut children: Vec<_> = (0..count)
            .map(|number| Self::start(test, &place, number))
            .collect();
        for child in &mut children {
            let output = child.output.as_mut().unwrap();
            let mut line = String::new();
            while !line.starts_with(READY) {
                line.clear();
                assert!(
                    output.read_line(&mut line).unwrap() > 0,
                    "{test}: a child ended early"
                );
            }
        }
        for child in &mut children {
            writeln!(child.child.stdin.as_mut().unwrap()).unwrap();
        }
        children
    }

    /// Its number for the operating system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The numbers that it tells under this word, to its end; to be asked for once.
    pub fn told<'w>(&mut self, word: &'w str) -> impl Iterator<Item = i64> + use<'w> {
        let lines = self.output.take().expect("asked for once").lines();
        lines.filter_map(move |line| line.unwrap().strip_prefix(word)?.trim().parse().ok())
    }

    /// Kills it, with no chance to do anything (`SIGKILL`), and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to finish, and waits for its end, which must be a success.
    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        if let Some(mut output) = self.output.take() {
            output.read_to_string(&mut rest).unwrap();
        }
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}
