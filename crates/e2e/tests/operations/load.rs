//! Records that are produced while something else happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crate::support::{Connection, one};

/// A producer of numbered records, one after the other, until it is told to stop or the broker goes.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Load {
    pub(crate) fn start(address: &str, partition: i32) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, count) = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let mut client = Connection::open(address);
        let thread = thread::spawn(move || {
            for number in 0.. {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(outcome) = client.try_produce("t", partition, one(&numbered(number))) else { return };
                assert_eq!(outcome, Ok(i64::try_from(number).unwrap()));
                count.store(number + 1, Ordering::Release);
            }
        });
        Self { stop, acknowledged, thread }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Stops and gives the number of records that were acknowledged.
    pub(crate) fn finish(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load has met no error");
        self.acknowledged.load(Ordering::Acquire)
    }
}

/// The record with this number; sizes differ.
pub(crate) fn numbered(number: usize) -> String {
    format!("{number} {}", "n".repeat(number * 37 % 3000))
}
