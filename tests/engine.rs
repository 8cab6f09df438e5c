//! The example of an engine of one's own, as a process that is killed.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../examples/engine.rs"]
mod engine;
mod kit;

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use kit::{Bench, both};

const COUNT: u64 = 4_000;
const BOOTSTRAP: &str = "KAFKA_2PC_TEST_ENGINE_BOOTSTRAP";
const DIR: &str = "KAFKA_2PC_TEST_ENGINE_DIR";

/// The process: this test's own binary, which runs the ignored test below.
struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(b: &Bench, dir: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "the_engine_as_a_process", "--nocapture"]);
        command.env(BOOTSTRAP, b.broker.bootstrap()).env(DIR, dir);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for the `nth` line that begins like this; false if the process ended before.
    fn reaches(&mut self, beginning: &str, nth: usize) -> bool {
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .filter(|line| line.starts_with(beginning))
            .nth(nth - 1)
            .is_some()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn end(mut self) -> ExitStatus {
        self.lines.by_ref().for_each(drop);
        self.child.wait().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_killed_again_and_again_writes_each_number_once() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let dir = tempfile::tempdir().unwrap();
        let kills = [
            ("prepared", 1),
            ("durable", 1),
            ("committed", 1),
            ("prepared", 4),
            ("durable", 3),
            ("recovered", 1),
        ];
        for (at, nth) in kills {
            let mut process = Process::start(&b, dir.path());
            assert!(process.reaches(at, nth), "it ended before {at} {nth}");
            process.kill();
        }
        assert!(Process::start(&b, dir.path()).end().success());
        let mut seen: Vec<u64> = b.committed().await.iter().map(|value| value.parse().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..COUNT).collect::<Vec<_>>());
    }
}

#[tokio::test]
#[ignore = "the process that is killed"]
async fn the_engine_as_a_process() {
    let var = |name| env::var(name).expect("it is started by the other test");
    let (bootstrap, dir) = (var(BOOTSTRAP), var(DIR));
    engine::run(&bootstrap, kit::TOPIC, Path::new(&dir), COUNT).await.unwrap();
}
