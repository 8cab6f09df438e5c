//! What holds of every codec.

use proptest::{collection::vec, prelude::*};

use super::{Sample, any_samples, batch_of, forged, read, records, seal};
use crate::{
    record::{Compression, CompressionLevels},
    wire::batch::{BatchBuilder, BatchError, HEADER_BYTES, RecompressError, SealError, at, compress},
};

fn built() -> impl Iterator<Item = Compression> {
    Compression::ALL.into_iter().filter(|codec| codec.is_built())
}

#[test]
fn a_compressed_batch_is_smaller_and_gives_its_buffer_back() {
    let samples = vec![Sample::value("the same again and again"); 200];
    let plain = seal(&samples, Compression::None).len();
    for (number, codec) in (0..).zip(Compression::ALL).filter(|(_, codec)| codec.is_built()).skip(1) {
        let mut batch = seal(&samples, codec);
        assert!(batch.len() < plain / 4, "{codec}: {} of {plain}", batch.len());
        assert_eq!(batch.take_spare().unwrap().len(), plain);
        let batch = read(batch.freeze()).unwrap();
        assert_eq!((batch.header().codec(), batch.compression()), (number, Some(codec)));
        assert_eq!(records(&batch).unwrap().len(), 200);
    }
}

#[test]
fn a_codec_that_is_not_built_is_refused_with_its_feature() {
    for codec in Compression::ALL.into_iter().filter(|codec| !codec.is_built()) {
        let mut builder = BatchBuilder::new();
        Sample::value("a").with_ref(|record| builder.append(record, 1)).unwrap();
        let error = builder.seal(codec).unwrap_err();
        assert_eq!(error, SealError::NotBuilt(codec));
        assert!(error.to_string().ends_with(&format!("build with the feature `{codec}`")), "{error}");
    }
    for (number, codec) in (0..).zip(Compression::ALL).filter(|(_, codec)| !codec.is_built()) {
        let batch = read(forged(&batch_of(&["a"]), at::ATTRIBUTES, [0, number])).unwrap();
        let error = batch.records().unwrap_err();
        assert_eq!(error, BatchError::Codec { codec: number });
        assert!(error.to_string().ends_with(&format!("build with the feature `{codec}`")), "{error}");
    }
}

#[test]
fn a_count_is_held_against_the_decompressed_bytes() {
    let plain = batch_of(&["a"]).len() - HEADER_BYTES;
    for codec in built().skip(1) {
        let batch = seal(&[Sample::value("a")], codec).freeze();
        let many = forged(&batch, at::LAST_OFFSET_DELTA, (i32::MAX - 1).to_be_bytes());
        let many = read(forged(&many, at::COUNT, i32::MAX.to_be_bytes())).unwrap();
        let refused = BatchError::Count { count: i32::MAX, last_offset_delta: i32::MAX - 1, bytes: plain };
        assert_eq!(many.records().unwrap_err(), refused, "{codec}");
    }
}

#[test]
fn a_batch_is_compressed_otherwise_and_stays_the_same() {
    let samples: Vec<_> = (0..300).map(|i| Sample::value(&format!("value {i}"))).collect();
    let levels = CompressionLevels::default();
    for from in built() {
        let batch = read(seal(&samples, from).freeze()).unwrap().placed(77, 3, None).unwrap();
        for to in built() {
            let other = batch.recompressed(to, levels).unwrap();
            assert_eq!(other.compression(), Some(to));
            assert_eq!(records(&other).unwrap(), records(&batch).unwrap(), "{from} to {to}");
            // Its checksum is right, and its length that of its bytes.
            let again = read(other.bytes().clone()).unwrap();
            assert_eq!((again.header(), again.bytes().len()), (other.header(), other.bytes().len()));
        }
    }
    let nonsense = read(forged(&batch_of(&["a"]), at::ATTRIBUTES, [0, 5])).unwrap();
    let refused = RecompressError::Read(BatchError::Codec { codec: 5 });
    assert_eq!(nonsense.recompressed(Compression::None, levels).unwrap_err(), refused);
}

/// What a decompressor says of `body`.
fn decompressed(codec: Compression, body: Vec<u8>, limit: usize) -> Result<Vec<u8>, BatchError> {
    let number = u8::try_from(compress::codec(codec)).unwrap();
    compress::decompress(number, body.into(), limit).map(Vec::from)
}

proptest! {
    #[test]
    fn any_content_comes_back(pieces in vec((any::<u8>(), 1usize..2_000), 0..40), level in 1..9i32) {
        let content: Vec<_> = pieces.into_iter().flat_map(|(byte, times)| vec![byte; times]).collect();
        let plain = [&[0; HEADER_BYTES], &content[..]].concat();
        for codec in built().skip(1) {
            let usual = CompressionLevels::default();
            let levels = usual.with(codec, level).unwrap_or(usual);
            let sealed = compress::compress(codec, levels, &plain).unwrap().unwrap();
            let back = decompressed(codec, sealed[HEADER_BYTES..].to_vec(), content.len()).unwrap();
            prop_assert!(back == content, "{}", codec);
        }
    }

    #[test]
    fn what_is_damaged_is_read_or_refused(
        samples in any_samples(),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<proptest::sample::Index>(),
    ) {
        for codec in built().skip(1) {
            let mut body = seal(&samples, codec).freeze()[HEADER_BYTES..].to_vec();
            for (at, byte) in &damage {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            let limit = 1 << 16;
            for body in [body.clone(), body[..cut.index(body.len())].to_vec()] {
                if let Ok(content) = decompressed(codec, body, limit) {
                    prop_assert!(content.len() <= limit);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_decompressed_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        for codec in built() {
            _ = decompressed(codec, bytes.clone(), 1 << 16);
        }
    }
}
