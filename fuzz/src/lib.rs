//! Hostile frames: mutated from well-formed ones, checked by the guard, decoded by the codec, with every byte of memory
//! counted.

pub mod memory;
pub mod mutate;
pub mod pipeline;
pub mod run;
