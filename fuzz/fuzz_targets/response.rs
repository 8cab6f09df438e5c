//! cargo-fuzz target: the first byte chooses the API, the second its version, the rest is a response frame.
#![no_main]

use bytes::Bytes;
use kafka_2pc::wire::{
    api::Api,
    guard::{Direction, sample},
};
use kafka_2pc_fuzz::pipeline;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let [api, version, frame @ ..] = input else { return };
    let api = Api::ALL[usize::from(*api) % Api::ALL.len()];
    let versions = sample::versions(Direction::Response, api);
    let version = versions.min + i16::from(*version) % (versions.max - versions.min + 1);
    if let Err(violation) = pipeline::response(api, version, Bytes::copy_from_slice(frame)) {
        panic!("{}", violation.0);
    }
});
