//! Target for libFuzzer; see `kafka_2pc_fuzz::targets::committable`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| kafka_2pc_fuzz::targets::committable(input));
