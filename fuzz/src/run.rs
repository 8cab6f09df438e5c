//! A run: so many frames for one API in one direction, and what became of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use kafka_2pc::wire::{
    api::Api,
    guard::{
        Direction, MEMORY_SLACK_BYTES,
        sample::{self, Seeded},
    },
};

use crate::{
    mutate::{self, frame, sample_of},
    pipeline::{self, Passage, Violation},
};

/// Frames made from one sample before the next is made up.
const FRAMES_PER_SAMPLE: u64 = 16;

/// Bodies below this size say nothing about memory per byte: the fixed part outweighs them.
const SMALLEST_FOR_RATIO: u64 = 4096;

/// The share of frames, in percent, that must come as far as the codec; else the run shows nothing about it.
pub const LEAST_PASSED_PERCENT: u64 = 10;

/// What became of the frames of one API in one direction.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The API.
    pub api: Api,
    /// Request or response.
    pub direction: Direction,
    /// Frames sent through.
    pub frames: u64,
    /// Frames that passed the guard and were decoded.
    pub decoded: u64,
    /// The most memory that one frame took, in bytes.
    pub peak_bytes: u64,
    /// The most memory per byte, over bodies of at least 4 KiB.
    pub peak_per_byte: f64,
    /// The smallest `k` that would have been enough: memory beyond the slack, per byte of the body.
    pub needed_k: f64,
    /// The first broken promise, with the frame that broke it.
    pub violation: Option<String>,
}

impl Outcome {
    fn new(api: Api, direction: Direction) -> Self {
        let (peak_bytes, peak_per_byte, needed_k) = (0, 0.0, 0.0);
        Self { api, direction, frames: 0, decoded: 0, peak_bytes, peak_per_byte, needed_k, violation: None }
    }

    /// The share of the frames that were decoded, in percent.
    #[must_use]
    pub fn passed_percent(&self) -> f64 {
        100.0 * self.decoded as f64 / self.frames.max(1) as f64
    }

    /// Why the outcome is not good enough, if it is not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let too_few = self.decoded * 100 < self.frames * LEAST_PASSED_PERCENT;
        let share =
            || format!("{} {}: only {:.1} % decoded", self.api, self.direction, self.passed_percent());
        self.violation.clone().or_else(|| too_few.then(share))
    }

    fn add(&mut self, passage: Passage) {
        self.frames += 1;
        if let Passage::Decoded { peak_bytes, body_bytes } = passage {
            self.decoded += 1;
            self.peak_bytes = self.peak_bytes.max(peak_bytes);
            let per_byte = |memory: u64| memory as f64 / body_bytes.max(1) as f64;
            self.needed_k = self.needed_k.max(per_byte(peak_bytes.saturating_sub(MEMORY_SLACK_BYTES)));
            if body_bytes >= SMALLEST_FOR_RATIO {
                self.peak_per_byte = self.peak_per_byte.max(per_byte(peak_bytes));
            }
        }
    }
}

/// Sends `frames` mutated frames through; stops at the first broken promise. The same seed gives the same frames.
#[must_use]
pub fn run(direction: Direction, api: Api, frames: u64, seed: u64) -> Outcome {
    let side = u64::from(direction == Direction::Response);
    let mut choices = Seeded(seed ^ (u64::from(api.key().unsigned_abs()) << 40) ^ (side << 60));
    let versions = sample::versions(direction, api);
    let mut outcome = Outcome::new(api, direction);
    let mut version = versions.min;
    while outcome.frames < frames && outcome.violation.is_none() {
        let whole = frame(direction, api, version, sample_of(direction, api, version, &mut choices));
        // A dense frame is large, so it is mutated less often.
        let dense = whole.bytes.len() > 8192;
        for _ in 0..if dense { 2 } else { FRAMES_PER_SAMPLE }.min(frames - outcome.frames) {
            let hostile = mutate::mutate(&whole, &mut choices);
            match send(direction, api, version, &hostile) {
                Ok(passage) => outcome.add(passage),
                Err(Violation(what)) => {
                    outcome.frames += 1;
                    outcome.violation = Some(format!("{what}\n  version {version}, frame {}", hex(&hostile)));
                    break;
                }
            }
        }
        version = if version == versions.max { versions.min } else { version + 1 };
    }
    outcome
}

fn send(direction: Direction, api: Api, version: i16, frame: &Bytes) -> Result<Passage, Violation> {
    let frame_of_its_own = Bytes::copy_from_slice(frame);
    let result = catch_unwind(AssertUnwindSafe(|| match direction {
        Direction::Request => pipeline::request(frame_of_its_own),
        Direction::Response => pipeline::response(api, version, frame_of_its_own),
    }));
    result.unwrap_or_else(|_| Err(Violation(format!("{api} {direction}: a panic"))))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().take(4096).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
