//! Hostile frames: mutated from well-formed ones, checked by the guard, decoded by the codec, with every byte of memory
//! counted.
//!
//! ```text
//! cargo run -p kafka-2pc-fuzz --release --bin hostile-frames -- --frames 1000000    seeded, with a table
//! cargo +nightly fuzz run response --features libfuzzer                             guided by coverage
//! cargo +nightly fuzz run request --features libfuzzer
//! ```
//! The targets for cargo-fuzz need a C++ compiler, so they are built with the feature `libfuzzer` only.

pub mod memory;
pub mod mutate;
pub mod pipeline;
pub mod run;
