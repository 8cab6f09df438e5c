//! cargo-fuzz target: a request frame, header included.
#![no_main]

use bytes::Bytes;
use kafka_2pc_fuzz::pipeline;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(violation) = pipeline::request(Bytes::copy_from_slice(input)) {
        panic!("{}", violation.0);
    }
});
