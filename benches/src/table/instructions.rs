//! E1 to E3: instructions of the codec, counted by callgrind, with processor time beside them.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use kafka_2pc_benches::codec::Task;

use crate::{options::Options, report::Row, rows::Goal, run::Programs};

/// A row of the codec.
struct Spec {
    id: &'static str,
    bytes: usize,
    of: Task,
    against: Task,
    goal: Goal,
}

const SPECS: &[Spec] = {
    use Task::{Decode, DecodeFloor, DecodePeer, Encode, EncodeFloor, EncodePeerCopies};
    const fn row(id: &'static str, bytes: usize, of: Task, against: Task, goal: Goal) -> Spec {
        Spec { id, bytes, of, against, goal }
    }
    &[
        row("E1", 100, Encode, EncodeFloor, Goal::AtMost(2.5, 1.8)),
        row("E1", 100, Encode, EncodePeerCopies, Goal::AtMost(0.45, 0.28)),
        row("E2", 1024, Encode, EncodeFloor, Goal::AtMost(1.4, 1.1)),
        row("E2", 1024, Encode, EncodePeerCopies, Goal::AtMost(0.6, 0.4)),
        row("E3", 100, Decode, DecodePeer, Goal::AtMost(0.35, 0.22)),
        row("E3", 100, Decode, DecodeFloor, Goal::AtMost(4.0, 2.6)),
    ]
};

/// The rows, by instructions, with rows of processor time that are only shown.
pub(crate) fn rows(programs: &Programs, options: &Options) -> Vec<Row> {
    let wanted: Vec<_> = SPECS.iter().filter(|spec| options.wants(spec.id)).collect();
    let mut rows = Vec::new();
    for spec in wanted {
        let what = |unit: &str| format!("{unit}, {} / {}, {} B", spec.of, spec.against, spec.bytes);
        match costs(spec, programs, options) {
            Ok((by_instructions, by_time, own)) => {
                rows.push(Row::measured(spec.id, what("instructions"), spec.goal, vec![by_instructions]));
                rows.push(Row::measured(spec.id, what("  CPU"), Goal::Shown, by_time));
                if matches!(spec.against, Task::EncodeFloor | Task::DecodeFloor) {
                    let what = format!("  instructions per record, {}, {} B", spec.of, spec.bytes);
                    rows.push(Row::measured(spec.id, what, Goal::Shown, vec![own]));
                }
            }
            Err(error) => rows.push(Row::missing(spec.id, what("instructions"), format!("{error:#}"))),
        }
    }
    rows
}

/// The ratio of instructions, those of processor time by round, and our instructions of a record.
fn costs(spec: &Spec, programs: &Programs, options: &Options) -> Result<(f64, Vec<f64>, f64)> {
    let instructions = |task| instructions(task, spec.bytes, programs);
    let (of, against) = (instructions(spec.of)?, instructions(spec.against)?);
    let mut times = Vec::new();
    for _ in 0..options.rounds {
        let nanoseconds = |task| nanoseconds(task, spec.bytes, programs, options.size.pick(300, 3000));
        times.push(nanoseconds(spec.of)? / nanoseconds(spec.against)?);
    }
    Ok((of / against, times, of))
}

/// Instructions of a record: the difference of two runs, so that the start of the program does not count.
fn instructions(task: Task, bytes: usize, programs: &Programs) -> Result<f64> {
    let (few, many) = (2, 12);
    let (before, records) = callgrind(task, bytes, programs, few)?;
    let (after, _) = callgrind(task, bytes, programs, many)?;
    Ok((after - before) / f64::from(many - few) / records)
}

/// All instructions of a run, and the records of its batch.
fn callgrind(task: Task, bytes: usize, programs: &Programs, times: u32) -> Result<(f64, f64)> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(&programs.codec)
        .args([task.to_string(), bytes.to_string(), times.to_string()])
        .output()
        .context("valgrind, which counts instructions, is not installed")?;
    Ok((counted(&output)?, printed(&String::from_utf8_lossy(&output.stdout))?.0))
}

/// What callgrind has counted of a program.
pub(crate) fn counted(output: &Output) -> Result<f64> {
    ensure!(output.status.success(), "under callgrind: {}", output.status);
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told.lines().find_map(|line| line.split("Collected :").nth(1));
    Ok(collected.context("callgrind counted nothing")?.trim().parse()?)
}

fn nanoseconds(task: Task, bytes: usize, programs: &Programs, times: u32) -> Result<f64> {
    let words = [task.to_string(), bytes.to_string(), times.to_string()];
    let output = Command::new(&programs.codec).args(words).output().context("bench-codec")?;
    ensure!(output.status.success(), "bench-codec: {}", output.status);
    Ok(printed(&String::from_utf8_lossy(&output.stdout))?.1)
}

/// What `bench-codec` prints: records of a batch, and nanoseconds of a record.
fn printed(output: &str) -> Result<(f64, f64)> {
    let (records, nanoseconds) = output.trim().split_once(' ').context("bench-codec printed nothing")?;
    Ok((records.parse()?, nanoseconds.parse()?))
}
