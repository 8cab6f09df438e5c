//! What is piped: the data set that the source tree holds, or as many records made up.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use bytes::Bytes;
use flate2::read::GzDecoder;

/// Records of the data set, and as many are made up without it.
pub(super) const RECORDS: u64 = 100_000;

/// Where the data set lies, relative to the source tree.
const FILE: &str = "testdata/flights-100k.ndjson.gz";

/// Records made up differ from machine to machine in nothing.
const SEED: u64 = 2013;

/// Lines, and where they are from.
pub(super) struct Data {
    /// One record a line.
    pub(super) lines: Bytes,
    /// The file; `None` when they are made up.
    pub(super) file: Option<PathBuf>,
}

impl Data {
    /// Reads the data set below the current directory or the tree that the program was built from, or makes records up.
    ///
    /// # Errors
    /// It is there, and can't be read.
    pub(super) fn find() -> anyhow::Result<Self> {
        let places = [PathBuf::from(FILE), Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)];
        let Some(file) = places.into_iter().find(|place| place.is_file()) else {
            return Ok(Self { lines: made_up(RECORDS).into(), file: None });
        };
        let lines = unzip(&file).with_context(|| file.display().to_string())?;
        Ok(Self { lines: lines.into(), file: Some(file) })
    }
}

fn unzip(file: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    GzDecoder::new(File::open(file)?).read_to_end(&mut lines)?;
    Ok(lines)
}

/// Departures that never were, each with a number of its own.
fn made_up(records: u64) -> Vec<u8> {
    const CARRIERS: [&str; 6] = ["AA", "B6", "DL", "EV", "UA", "WN"];
    const PLACES: [&str; 8] = ["ATL", "BOS", "DEN", "EWR", "JFK", "LAX", "LGA", "ORD"];
    let mut random = SplitMix(SEED);
    let mut lines = String::new();
    for number in 0..records {
        let carrier = CARRIERS[random.below(CARRIERS.len())];
        let (origin, dest) = (PLACES[random.below(PLACES.len())], PLACES[random.below(PLACES.len())]);
        let (flight, delay, miles) = (random.below(9000) + 1, random.below(90), random.below(2500) + 90);
        let (day, minute) = (number / 1000 + 1, number % 1000);
        // Writing to a String can't fail.
        _ = writeln!(
            lines,
            r#"{{"number":{number},"day":{day},"minute":{minute},"carrier":"{carrier}","flight":{flight},"tailnum":"N{:05}","origin":"{origin}","dest":"{dest}","dep_delay":{delay},"distance":{miles},"made_up":true}}"#,
            random.below(100_000),
        );
    }
    lines.into_bytes()
}

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn records_made_up_are_the_same_each_time_and_differ_from_each_other() {
        let lines = made_up(1000);
        assert_eq!(lines, made_up(1000));
        let text = String::from_utf8(lines).unwrap();
        assert_eq!(text.lines().collect::<HashSet<_>>().len(), 1000);
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }

    #[test]
    fn the_data_set_has_as_many_records_as_are_made_up_without_it() {
        let data = Data::find().unwrap();
        let lines = data.lines.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(u64::try_from(lines).unwrap(), RECORDS);
    }
}
