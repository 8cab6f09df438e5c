//! The rows find mistakes: the client is built with one planted bug at a time, and a named row must then fail.
//!
//! A bug is a `cfg!(planted_bug = "..")` in the client. It is given to the crates of this workspace alone, so that nothing else is built
//! again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// A bug, and the rows that find it: on which arm, and which row.
struct Bug {
    name: &'static str,
    arm: &'static str,
    row: &'static str,
    size: Size,
}

/// When it is tried.
#[derive(PartialEq, Eq)]
enum Size {
    Quick,
    Full,
}

const BUGS: [Bug; 2] = [
    bug("reuse-the-epoch", "embedded kafka-4.4-v1", "G16", Size::Quick),
    bug("new-sequence-on-retry", "embedded kafka-4.4", "E14", Size::Full),
];

const fn bug(name: &'static str, arm: &'static str, row: &'static str, size: Size) -> Bug {
    Bug { name, arm, row, size }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They build, each with all cores.
    arguments.test_threads = Some(1);
    let full = std::env::var("KAFKA_2PC_SIZE").is_ok_and(|size| size == "full");
    let chosen = BUGS.into_iter().filter(|bug| full || bug.size == Size::Quick);
    let trials = chosen.map(|bug| {
        Trial::test(format!("{} is found by {} [{}]", bug.name, bug.row, bug.arm), move || found(&bug))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The row fails with the bug. That it passes without is what the conformance test shows.
fn found(bug: &Bug) -> Result<(), Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = target(&root).join("planted").join(bug.name);
    fs::create_dir_all(&folder)?;
    let wrapper = folder.join("rustc");
    let script = format!("#!/bin/sh\nexec \"$@\" --cfg 'planted_bug=\"{}\"'\n", bug.name);
    fs::write(&wrapper, script)?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    let target = target(&root);
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
    let output = Command::new(target.join("debug/protocol-tests"))
        .args(["report", "--arm", bug.arm, "--filter", bug.row, "--out"])
        .arg(folder.join("report"))
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

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
