//! Real input: departures from New York's airports, one JSON object a line, every line different.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use kafka_2pc_protocol_tests::harness::Failure;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/flights-100k.ndjson.gz");

/// Writes the first `count` lines of the data set to `path`.
pub(crate) fn write(path: &Path, count: u64) -> Result<(), Failure> {
    let packed = File::open(FLIGHTS).map_err(|e| Failure::of(format!("{FLIGHTS}: {e}")))?;
    let mut lines = BufReader::new(MultiGzDecoder::new(packed));
    let mut out = BufWriter::new(File::create(path)?);
    let mut line = Vec::new();
    for number in 0..count {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)?;
        Failure::unless(read > 0, format!("the data set has only {number} lines"))?;
        out.write_all(&line)?;
    }
    out.flush().map_err(Failure::from)
}
