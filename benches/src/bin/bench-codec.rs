//! `bench-codec TASK BYTES TIMES`: one task of the codec so many times, for `bench-table`, which counts its instructions.
//! It prints how many records a batch has, and the processor nanoseconds that a record took.

use std::hint::black_box;

use anyhow::{Context, Result};
use kafka_2pc_benches::{
    codec::{Codec, Task},
    measure::cpu_time,
};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [task, bytes, times] = words.as_slice() else { anyhow::bail!("bench-codec TASK BYTES TIMES") };
    let (task, times): (Task, u32) = (task.parse()?, times.parse().context("TIMES")?);
    let mut codec = Codec::new(bytes.parse().context("BYTES")?);
    let before = cpu_time();
    for _ in 0..times {
        black_box(codec.run(task));
    }
    let spent = (cpu_time() - before).as_secs_f64() * 1e9;
    println!("{} {}", codec.records(), spent / f64::from(times) / codec.records() as f64);
    Ok(())
}
