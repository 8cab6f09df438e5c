//! The rows find mistakes: the client is built with one planted bug at a time, and a named row must then fail.
//!
//! A bug is a `cfg!(planted_bug = "..")` in the client. It is given to the crates of this workspace alone, so that nothing else is built
//! again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};

/// A bug, and the row that finds it: on which arm, and which row.
struct Bug {
    name: &'static str,
    arm: &'static str,
    row: &'static str,
    size: Size,
}

/// When it is tried.
#[derive(PartialEq, Eq)]
enum Size {
    /// In every run. These share one build: each row meets its own bug alone, for the first is about what V1 begins with, the
    /// second about an answer to Produce, and the third about recoveries.
    Quick,
    /// In full runs, as the others, each in a build of its own.
    Full,
}

const V2: &str = "embedded kafka-4.4";
const V1: &str = "embedded kafka-4.4-v1";

/// All there are.
const BUGS: [Bug; 12] = [
    bug("reuse-the-epoch", V1, "G16", Size::Quick),
    bug("ack-on-timeout", V2, "E04", Size::Quick),
    bug("skip-the-leftovers", V2, "K24", Size::Quick),
    bug("new-sequence-on-retry", V2, "E14", Size::Full),
    bug("fenced-is-committed", V1, "G14", Size::Full),
    bug("unknown-is-committed", V2, "G11", Size::Full),
    bug("clear-the-latch", V2, "E13", Size::Full),
    bug("ignore-the-pinned-version", V2, "A05", Size::Full),
    bug("write-after-prepare", V2, "G01", Size::Full),
    bug("forget-a-partition", V2, "K22", Size::Full),
    bug("commit-before-durable", V2, "K27", Size::Full),
    bug("reuse-an-id-early", V2, "K09", Size::Full),
];

const fn bug(name: &'static str, arm: &'static str, row: &'static str, size: Size) -> Bug {
    Bug { name, arm, row, size }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They build, each with all cores.
    arguments.test_threads = Some(1);
    let full = std::env::var("KAFKA_2PC_SIZE").is_ok_and(|size| size == "full");
    let builds: Vec<Vec<&Bug>> = if full {
        BUGS.iter().map(|bug| vec![bug]).collect()
    } else {
        vec![BUGS.iter().filter(|bug| bug.size == Size::Quick).collect()]
    };
    let mut trials = vec![Trial::test("every bug of the client is in the table", all_listed)];
    for bugs in builds {
        let names: Vec<_> = bugs.iter().map(|bug| bug.name).collect();
        let program: Arc<OnceLock<Built>> = Arc::default();
        for bug in bugs {
            let (program, names) = (Arc::clone(&program), names.clone());
            let name = format!("{} is found by {} [{}]", bug.name, bug.row, bug.arm);
            trials.push(Trial::test(name, move || {
                let built = program.get_or_init(|| build(&names).map_err(|e| e.to_string()));
                found(bug, built.as_ref().map_err(|e| Failed::from(e.as_str()))?)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The program with bugs in it, or why there is none.
type Built = Result<PathBuf, String>;

/// The names that Cargo.toml allows.
fn all_listed() -> Result<(), Failed> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let (_, values) =
        manifest.split_once("planted_bug, values(").ok_or("Cargo.toml names no planted bugs")?;
    let (values, _) = values.split_once(')').ok_or("Cargo.toml's list of planted bugs has no end")?;
    let mut allowed: Vec<_> = values.split(',').map(|name| name.trim().trim_matches('"')).collect();
    let mut listed: Vec<_> = BUGS.iter().map(|bug| bug.name).collect();
    allowed.sort_unstable();
    listed.sort_unstable();
    if allowed == listed { Ok(()) } else { Err(format!("allowed: {allowed:?}, listed: {listed:?}").into()) }
}

/// Builds the suite with these bugs in the client.
fn build(bugs: &[&str]) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let (root, target) = (root(), target());
    let folder = target.join("planted").join(bugs[0]);
    fs::create_dir_all(&folder)?;
    let wrapper = folder.join("rustc");
    let flags: String = bugs.iter().map(|bug| format!(" --cfg 'planted_bug=\"{bug}\"'")).collect();
    fs::write(&wrapper, format!("#!/bin/sh\nexec \"$@\"{flags}\n"))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    // With the features of the other builds of the workspace, so that what it depends on is there already.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--workspace", "--all-features", "--bin", "protocol-tests"])
        .env("RUSTC_WORKSPACE_WRAPPER", &wrapper)
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&root)
        .output()?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned().into());
    }
    // The next build puts its own in this place.
    let program = folder.join("protocol-tests");
    fs::copy(target.join("debug/protocol-tests"), &program)?;
    Ok(program)
}

/// The row fails with the bug. That it passes without is what the conformance test shows.
fn found(bug: &Bug, program: &Path) -> Result<(), Failed> {
    let report = program.with_file_name("report");
    let output = Command::new(program)
        .args(["report", "--arm", bug.arm, "--filter", bug.row, "--out"])
        .arg(report)
        .output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = told.lines().any(|line| {
        let mut words = line[line.len().min(bug.arm.len())..].split_whitespace();
        line.starts_with(bug.arm) && words.next() == Some(bug.row) && words.next() == Some("FAIL")
    });
    if failed {
        return Ok(());
    }
    Err(format!("{told}\n{}", String::from_utf8_lossy(&output.stderr)).into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
