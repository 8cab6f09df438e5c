//! Encoding and decoding one record batch of 128 KiB, beside the floor and a peer; see `kafka_2pc_benches::codec`.

use criterion::{Criterion, Throughput};
use kafka_2pc_benches::codec::{Codec, Task};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for bytes in [100, 1024] {
        let mut codec = Codec::new(bytes);
        let mut group = criterion.benchmark_group(format!("codec/{bytes}B"));
        group.throughput(Throughput::Elements(codec.records() as u64));
        for (task, name) in Task::ALL {
            group.bench_function(name, |b| b.iter(|| codec.run(task)));
        }
        group.finish();
    }
    criterion.final_summary();
}
