//! `null-broker`: a broker that keeps nothing, to measure clients against. It prints its address, then what it counted
//! for each line of its input, and once more when its input ends, which ends it.
//!
//! ```text
//! null-broker --mode instant|delay|serial|verify [--delay-ms N] [--topic NAME] [--partitions N] [--transaction-version 0|1|2]
//! ```

use std::io::BufRead;

use anyhow::Result;
use kafka_2pc_benches::null::{NullBroker, Settings};

fn main() -> Result<()> {
    let broker = NullBroker::start(Settings::parse(std::env::args().skip(1))?)?;
    println!("{}", broker.bootstrap());
    for line in std::io::stdin().lock().lines() {
        line?;
        println!("{}", broker.counters().json());
    }
    println!("{}", broker.counters().json());
    Ok(())
}
