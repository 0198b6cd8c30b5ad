//! How fast batches are checked. Run with `cargo test -p batch --release --test speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use batch::{
    BatchBuilder, Codec, DecompressionBudget, NewRecord, RecordChecks, TimestampBounds, check_produced,
    check_records, verify_crc,
};

#[test]
#[ignore = "prints figures that mean something only in a release build"]
fn a_batch_is_checked_faster_than_memory_is_copied() {
    for (codec, batch_size, value_size) in [
        (Codec::None, 1 << 20, 10),
        (Codec::None, 1 << 20, 100),
        (Codec::None, 1 << 20, 1024),
        (Codec::Gzip, 1 << 20, 100),
        (Codec::Snappy, 1 << 20, 100),
        (Codec::Lz4, 1 << 20, 100),
        (Codec::Zstd, 1 << 20, 100),
        (Codec::Gzip, 300, 100),
        (Codec::Snappy, 300, 100),
        (Codec::Lz4, 300, 100),
        (Codec::Zstd, 300, 100),
    ] {
        let mut builder = BatchBuilder::new(0).codec(codec);
        let mut noise = 1_u64;
        let mut timestamp = 1_700_000_000_000;
        while builder.size() < batch_size {
            let value: Vec<u8> = (0..value_size)
                .map(|_| {
                    noise =
                        noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    b'a' + (noise >> 60).to_le_bytes()[0]
                })
                .collect();
            timestamp += i64::from(value[0] & 1);
            builder
                .push(&NewRecord { timestamp, key: Some(&value[..4]), value: Some(&value), headers: &[] })
                .unwrap();
        }
        let plain = builder.size();
        let batch = builder.finish().unwrap();
        let checks = RecordChecks {
            require_key: true,
            timestamps: Some(TimestampBounds {
                now_ms: 1_700_000_000_000,
                before_max_ms: i64::MAX,
                after_max_ms: 3_600_000,
            }),
        };
        let checked = check_produced(&batch, usize::MAX).unwrap();
        let crc = gigabytes_per_second(batch.len(), || verify_crc(black_box(&batch)).unwrap());
        let walk = gigabytes_per_second(plain, || {
            assert!(
                check_records(black_box(&checked), &checks, &mut DecompressionBudget::default())
                    .unwrap()
                    .refused
                    .is_empty()
            );
        });
        println!(
            "{codec:7} {plain:8} bytes, values of {value_size:4}: crc {crc:6.2} GB/s, records {walk:6.2} GB/s"
        );
    }
}

/// The best of several rounds, so that whoever else uses the machine does not count.
fn gigabytes_per_second(bytes: usize, mut work: impl FnMut()) -> f64 {
    let repeat = 5_000_000_usize.div_ceil(bytes).min(2_000);
    let best = (0..20).map(|_| {
        let begun = Instant::now();
        (0..repeat).for_each(|_| work());
        begun.elapsed()
    });
    (repeat * bytes) as f64 / best.min().unwrap_or_default().as_secs_f64() / 1e9
}
