//! `kohort snapshot`: asks a running broker for a copy of its data.

use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use crate::admin::SnapshotTaken;
use crate::admin_client::ask;
use crate::cli::SnapshotArgs;
use crate::failure::{Failure, Kind};
use crate::output::{bytes, count, show};

#[derive(Serialize)]
struct Taken {
    #[serde(flatten)]
    taken: SnapshotTaken,
    seconds: f64,
}

/// Runs `kohort snapshot …`.
pub(crate) async fn run(args: SnapshotArgs) -> anyhow::Result<()> {
    // The broker may have been started elsewhere, where the same relative path means another directory.
    let directory = std::path::absolute(&args.directory).context("find the directory")?;
    let Some(directory) = directory.to_str() else {
        let message = format!("{} is not UTF-8; name another directory", directory.display());
        return Err(Failure::new(Kind::Usage, message).into());
    };
    let started = Instant::now();
    let body = json!({ "directory": directory }).to_string();
    let answer = ask(&args.admin, "POST", "/v1/snapshot", &body, "take a snapshot").await?;
    let taken: SnapshotTaken = serde_json::from_str(&answer).context("understand the broker's answer")?;
    let taken = Taken { taken, seconds: started.elapsed().as_secs_f64() };
    Ok(show(args.output.output, &taken, |Taken { taken, seconds }| {
        let (directory, size) = (taken.directory.display(), bytes(taken.bytes));
        format!("{directory}: {} with {size} in {seconds:.1} s\n", count(taken.partitions, "partition"))
    })?)
}
