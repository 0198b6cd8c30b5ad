//! A reader that asks for much and never reads: it must hurt only itself.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::kohort::{Kohort, Options};

use crate::load::{Connection, batch};
use crate::process::megabytes;

/// The most memory that a broker takes under 20 readers that ask for 20 × 50 MiB each, in MB.
pub(crate) fn measure() -> Result<f64> {
    println!("-- readers that never read");
    let kohort = Kohort::start(Options::default())?;
    let mut connection = Connection::open(&kohort.bootstrap())?;
    connection.create_topic("unread", 1)?;
    let batch = batch(512, 1024)?;
    for _ in 0..512 {
        connection.produce("unread", 0, &batch)?;
    }
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = Connection::open(&kohort.bootstrap())?;
        for _ in 0..20 {
            reader.fetch_without_reading("unread")?;
        }
        readers.push(reader);
    }
    let mut most: f64 = 0.0;
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(100));
        most = most.max(megabytes(kohort.pid())?);
    }
    Ok(most)
}
