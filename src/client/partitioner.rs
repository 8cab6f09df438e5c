//! Where a record goes that names no partition.

/// Kafka's murmur2, as its default partitioner uses it (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Java's length is an int; a key never comes near its end.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut h = 0x9747_b28c ^ length;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ (k ^ (k >> R)).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |acc, byte| (acc << 8) | u32::from(*byte));
        h = (h ^ tail).wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    h ^ (h >> 15)
}

/// The partition of a key, as Kafka's Java client chooses it.
pub(super) fn of_key(key: &[u8], partitions: i32) -> i32 {
    let positive = i32::try_from(murmur2(key) & 0x7fff_ffff).unwrap_or_default();
    positive % partitions.max(1)
}

/// Records without a key stay on one partition until a batch's worth of bytes went there (KIP-480, KIP-794).
#[derive(Debug)]
pub(super) struct Sticky {
    partition: i32,
    bytes: usize,
}

impl Sticky {
    pub(super) fn new(first: u64, partitions: i32) -> Self {
        let first = first % u64::from(partitions.max(1).unsigned_abs());
        Self { partition: i32::try_from(first).unwrap_or_default(), bytes: 0 }
    }

    /// The partition for a record of `bytes`.
    pub(super) fn next(&mut self, bytes: usize, batch_bytes: usize, partitions: i32) -> i32 {
        if self.bytes >= batch_bytes || self.partition >= partitions {
            self.partition = (self.partition + 1) % partitions.max(1);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.partition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_in_java() {
        // From Kafka's UtilsTest.testMurmur2.
        let cases: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key), u32::from_ne_bytes(hash.to_ne_bytes()), "{key:?}");
        }
    }

    #[test]
    fn records_without_a_key_fill_one_partition_after_the_other() {
        let mut sticky = Sticky::new(2, 3);
        let went: Vec<_> = (0..9).map(|_| sticky.next(40, 100, 3)).collect();
        assert_eq!(went, [2, 2, 2, 0, 0, 0, 1, 1, 1]);
    }
}
