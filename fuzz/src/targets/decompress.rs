//! Compressed records.

use bytes::Bytes;
use kafka_2pc::{
    record::{Compression, RecordRef},
    wire::batch::{self, BatchBuilder, BatchError, BatchHeader, HEADER_BYTES},
};

use super::batch::compressions;
use crate::{input::Input, memory::peak_of};

/// Tables and windows of a decompressor, whatever the limit is: 2 MiB; for zstd 16 MiB, for its frames may ask for a
/// window of 8 MiB.
const SLACK: [u64; 8] = [0, 2 << 20, 2 << 20, 2 << 20, 16 << 20, 0, 0, 0];

/// The number of a codec, a limit in units of 16 bytes (two bytes), and what the codec has to read.
///
/// No codec gives more than the limit or takes memory beyond some multiples of it; the limit is exact; what is not known
/// has an error of its own. And the input as a record is the same after each codec of this build.
pub fn decompress(input: &[u8]) {
    let mut choices = Input::new(input);
    let codec = choices.byte() % 8;
    let limit = 16 * usize::from(u16::from_be_bytes(choices.array()));
    let body = Bytes::copy_from_slice(choices.rest());
    let bound = 4 * limit as u64 + 64 * body.len() as u64 + SLACK[usize::from(codec)];
    let (read, peak) = peak_of(|| batch::decompress(codec, body.clone(), limit));
    assert!(peak <= bound + 1024, "codec {codec}: {peak} bytes of memory for {} up to {limit}", body.len());
    match read {
        Ok(plain) if codec == 0 => assert_eq!(plain, body),
        Ok(plain) => the_limit_is_exact(codec, &body, limit, &plain),
        Err(BatchError::TooLarge { limit: told }) => assert_eq!(told, limit),
        Err(BatchError::Codec { codec: told }) => {
            assert_eq!(told, codec);
            let built = Compression::ALL.get(usize::from(codec)).is_some_and(|known| known.is_built());
            assert!(!built, "codec {codec} is part of this build");
        }
        Err(BatchError::Compressed { .. }) => {}
        Err(error) => panic!("codec {codec}: {error}"),
    }
    compressions().for_each(|compression| comes_back(compression, &body));
}

fn the_limit_is_exact(codec: u8, body: &Bytes, limit: usize, plain: &Bytes) {
    assert!(plain.len() <= limit, "codec {codec}: {} bytes, {limit} allowed", plain.len());
    let exactly = batch::decompress(codec, body.clone(), plain.len());
    assert_eq!(exactly.as_ref(), Ok(plain), "codec {codec}: as many as there are");
    if let Some(fewer) = plain.len().checked_sub(1) {
        let refused = batch::decompress(codec, body.clone(), fewer);
        assert!(matches!(refused, Err(BatchError::TooLarge { limit }) if limit == fewer), "{refused:?}");
    }
}

fn comes_back(compression: Compression, value: &Bytes) {
    let seal = |compression| {
        let mut builder = BatchBuilder::new();
        let appended = builder.append(&RecordRef::value(value), 0);
        assert_eq!(appended, Ok(()));
        builder.seal(compression).map(|sealed| sealed.freeze())
    };
    let (Ok(plain), Ok(packed)) = (seal(Compression::None), seal(compression)) else {
        panic!("{compression:?} does not take {} bytes", value.len());
    };
    let Ok(header) = BatchHeader::parse(&packed) else { panic!("{compression:?}: its header") };
    let plain = plain.slice(HEADER_BYTES..);
    let back = batch::decompress(header.codec(), packed.slice(HEADER_BYTES..), plain.len());
    assert_eq!(back.as_ref(), Ok(&plain), "{compression:?}");
}
