//! A small run of `hostile-frames` over every API, so that every test run has one.

use kafka_2pc::wire::{
    api::Api,
    guard::{Direction, sample::Seeded},
};
use kafka_2pc_fuzz::{
    mutate::{frame, mutate, sample_of},
    run::run,
};

#[test]
fn hostile_frames_of_every_api_keep_within_the_bound() {
    for api in Api::ALL {
        for direction in [Direction::Request, Direction::Response] {
            let outcome = run(direction, api, 1000, 42);
            assert_eq!(outcome.failure(), None);
            assert_eq!(outcome.frames, 1000);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let once = |seed| {
        let mut choices = Seeded(seed);
        let sample = sample_of(Direction::Response, Api::Metadata, 12, &mut choices);
        mutate(&frame(Direction::Response, Api::Metadata, 12, sample), &mut choices)
    };
    assert_eq!(once(5), once(5));
    assert_ne!(once(5), once(6));
}
