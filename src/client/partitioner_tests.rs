use super::*;

/// In the small topic and in the large one, by each of the hashes.
type Places = [(i32, i32); 3];

/// Keys, and where they go in a topic of 12 partitions and in one of 1,000,003: by murmur2, CRC-32 and FNV-1a. What
/// librdkafka 2.16.0 says (`rd_kafka_msg_partitioner_murmur2` and so on); for murmur2, Kafka's Java client 4.4.0
/// (`BuiltInPartitioner.partitionForKey`) says the same.
const FOREIGN: &[(&[u8], Places)] = &[
    (b"", [(9, 645_856), (0, 0), (3, 824_651)]),
    (b"a", [(4, 100_772), (3, 344_195), (0, 963_672)]),
    (b"42", [(4, 699_721), (8, 262_765), (5, 126_240)]),
    (b"key", [(1, 543_080), (1, 729_965), (4, 252_790)]),
    (b"kafka", [(4, 976_536), (11, 72_782), (5, 495_882)]),
    (b"order-4711", [(7, 978_859), (7, 369_097), (7, 444_510)]),
    ("Z\u{fc}rich".as_bytes(), [(1, 341_045), (6, 746_178), (8, 831_251)]),
    (&[0; 4], [(4, 954_570), (4, 160_018), (1, 115_001)]),
    (b"\xff\x80\xfe", [(1, 55_654), (7, 138_898), (0, 359_197)]),
    (&[0xff; 5], [(6, 639_677), (2, 789_561), (10, 548_364)]),
    (&[b'x'; 300], [(4, 17_547), (11, 385_912), (7, 522_280)]),
];

fn keyed(key: &[u8]) -> RecordRef<'_> {
    RecordRef { key: Some(key), ..RecordRef::value(b"v") }
}

#[test]
fn keys_go_where_other_clients_put_them() {
    use Partitioner::{Consistent, ConsistentRandom, Fnv1a, Fnv1aRandom, Murmur2, Murmur2Random};
    let (small, large) = (Topic::sample("t", 12), Topic::sample("t", 1_000_003));
    let pairs = [[Murmur2, Murmur2Random], [Consistent, ConsistentRandom], [Fnv1a, Fnv1aRandom]];
    for (key, said) in FOREIGN {
        for (said, pair) in said.iter().zip(&pairs) {
            for partitioner in pair {
                let found = (partitioner.of(&small, &keyed(key)), partitioner.of(&large, &keyed(key)));
                let is_any = key.is_empty() && matches!(partitioner, ConsistentRandom);
                let said = if is_any { (None, None) } else { (Some(said.0), Some(said.1)) };
                assert_eq!(found, said, "{partitioner} {key:?}");
            }
        }
    }
}

#[test]
fn without_a_key_the_random_ones_leave_it_open_and_the_others_choose_one() {
    let topic = Topic::sample("t", 12);
    for partitioner in Partitioner::NAMED {
        let chosen = partitioner.of(&topic, &RecordRef::value(b"v"));
        assert_eq!(chosen.is_none(), partitioner.name().ends_with("random"), "{partitioner}");
        let empty = partitioner.of(&topic, &keyed(b""));
        assert!(chosen.is_none() || chosen == empty, "{partitioner}: no key is as an empty one");
    }
    assert_eq!(Partitioner::Random.of(&topic, &keyed(b"k")), None);
}

#[test]
fn a_users_own_choice_sees_topic_and_record() {
    let last_byte = |topic: &Topic, record: &RecordRef<'_>| {
        record.value.and_then(<[u8]>::last).map(|byte| i32::from(*byte) % topic.partitions())
    };
    let custom = Partitioner::custom(last_byte);
    let topic = Topic::sample("t", 7);
    assert_eq!(custom.of(&topic, &RecordRef::value(&[1, 9])), Some(2));
    assert_eq!(custom.of(&topic, &RecordRef::value(&[])), None);
    assert_eq!(format!("{custom} {custom:?}"), "custom custom");
}

#[test]
fn names_are_those_of_librdkafka() {
    for partitioner in Partitioner::NAMED {
        let name = partitioner.name();
        assert_eq!(name.parse::<Partitioner>().map(|parsed| parsed.to_string()), Ok(name.to_owned()));
        assert!(UnknownPartitioner(String::new()).to_string().contains(name));
    }
    for name in ["custom", "Murmur2", "org.apache.kafka.clients.producer.RoundRobinPartitioner", ""] {
        assert_eq!(name.parse::<Partitioner>().unwrap_err(), UnknownPartitioner(name.to_owned()));
    }
}

#[test]
fn hashes_are_those_of_their_definitions() {
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
    // The check value of CRC-32/ISO-HDLC.
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn records_without_a_key_fill_one_partition_after_the_other() {
    let mut sticky = Sticky::new(2, 3);
    let mut next = |taken: usize| {
        let partition = sticky.next(100, 3);
        sticky.add(taken);
        partition
    };
    let went: Vec<_> = (0..9).map(|_| next(40)).collect();
    assert_eq!(went, [2, 2, 2, 0, 0, 0, 1, 1, 1]);
    assert_eq!([next(0), next(0), next(0), next(40)], [2; 4], "what is not taken does not count");
}
