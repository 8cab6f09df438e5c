use super::*;
use crate::{client::ClientConfig, net::TcpConnector};

impl Accumulator {
    /// How many were closed and not taken.
    pub(in crate::client) fn closed_count(&self) -> usize {
        self.closed.len()
    }

    /// Lets the open batch of a partition be one that can't be closed.
    pub(in crate::client) fn spoil(&mut self, Place { topic, partition }: Place) {
        if let Some(open) = &mut self.topics[topic].partitions[partition].open {
            open.builder = BatchBuilder::with_buffer(Vec::new());
        }
    }
}

fn accumulator(settings: Settings) -> Accumulator {
    let router = Router::new(ClientConfig::new("localhost:1").unwrap(), Arc::new(TcpConnector));
    Accumulator::new(Arc::new(router), settings, Arc::default())
}

#[test]
fn records_that_cannot_be_compressed_are_counted_and_keep_no_others() {
    let topic = Topic::sample("t", 3);
    let mut records = accumulator(Settings::default());
    for partition in [0, 1, 1, 2] {
        records.append(&topic, Some(partition), &RecordRef::value(b"v")).unwrap();
    }
    let place = Place { topic: 0, partition: 1 };
    let delivery = records.track(place);
    records.spoil(place);
    let Err(SendError::Failed(cause)) = records.close_all() else { panic!("all were closed") };
    assert_eq!(cause.kind, CauseKind::Refused);
    let closed: Vec<_> = records.closed().unwrap().iter().map(|s| s.partition.partition).collect();
    assert_eq!(closed, [0, 2], "the others go on");
    let lost = records.lost().unwrap();
    assert_eq!((lost.records, lost.cause), (2, cause.clone()));
    assert!(records.lost().is_none(), "told once");
    let told = futures::FutureExt::now_or_never(delivery.stored()).expect("told at once");
    assert_eq!(told, Err(cause.clone()));
    let refused = records.append(&topic, Some(0), &RecordRef::value(b"v")).unwrap_err();
    assert_eq!(refused, TrySendError::Failed(cause));
}

#[cfg(not(feature = "gzip"))]
#[test]
fn a_codec_that_is_not_built_takes_no_record() {
    let topic = Topic::sample("t", 1);
    let mut records = accumulator(Settings { compression: Compression::Gzip, ..Settings::default() });
    match records.append(&topic, None, &RecordRef::value(b"v")) {
        Err(TrySendError::Failed(cause)) => assert_eq!(cause.kind, CauseKind::Unsupported),
        other => panic!("{other:?}"),
    }
}
