//! Hostile bytes against everything that reads bytes, and any order of facts against the machines.
//!
//! ```text
//! cargo test                                   every seed and case, and some mutations of each; no C++
//! ./run [--seconds 600] [TARGET..]             libFuzzer, guided by coverage, with a table; wants a C++ compiler
//! cargo run --release --bin hostile-frames -- --frames 1000000     frames of every API, seeded, with a table
//! ```
//! A target is a function of bytes in [`targets`] that panics where a promise is broken. `fuzz_targets` hands it to
//! libFuzzer; `tests/replay.rs` gives it what lies in `corpus` (what real brokers and clients sent, and what libFuzzer
//! found on the way) and in `cases` (inputs that have broken a promise once).

pub mod input;
pub mod memory;
pub mod mutate;
pub mod pipeline;
pub mod run;
pub mod seeds;
pub mod targets;
