//! `kohort snapshot`: asks a running broker for a copy of its data.

use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use crate::admin::SnapshotTaken;
use crate::cli::SnapshotArgs;
use crate::failure::{Failure, Kind};
use crate::http::request;
use crate::output::{bytes, count, show};
use crate::token;

#[derive(Serialize)]
struct Taken {
    #[serde(flatten)]
    taken: SnapshotTaken,
    seconds: f64,
}

/// Runs `kohort snapshot …`.
pub(crate) async fn run(args: SnapshotArgs) -> anyhow::Result<()> {
    let file = args.token_file.clone().unwrap_or_else(|| token::path(&args.data_dir));
    let token = token::read(&file).map_err(|error| {
        let message = format!(
            "read the token in {}: {error}; name the broker's data directory with --data-dir, or --token-file",
            file.display()
        );
        Failure::new(Kind::Failed, message)
    })?;
    // The broker may have been started elsewhere, where the same relative path means another directory.
    let directory = std::path::absolute(&args.directory).context("find the directory")?;
    let Some(directory) = directory.to_str() else {
        let message = format!("{} is not UTF-8; name another directory", directory.display());
        return Err(Failure::new(Kind::Usage, message).into());
    };
    let started = Instant::now();
    let body = json!({ "directory": directory }).to_string();
    let answer =
        request(&args.admin, "POST", "/v1/snapshot", Some(&token), &body).await.map_err(|error| {
            let message = format!("cannot reach the admin listener at {}: {error}; see --admin", args.admin);
            Failure::new(Kind::Unreachable, message)
        })?;
    if answer.status != 200 {
        let said = serde_json::from_str::<Value>(&answer.body).ok();
        let said = said.as_ref().and_then(|value| value.get("error")?.as_str()).unwrap_or(&answer.body);
        return Err(Failure::new(Kind::Failed, format!("take a snapshot: {said}")).into());
    }
    let taken: SnapshotTaken =
        serde_json::from_str(&answer.body).context("understand the broker's answer")?;
    let taken = Taken { taken, seconds: started.elapsed().as_secs_f64() };
    Ok(show(args.output.output, &taken, |Taken { taken, seconds }| {
        let (directory, size) = (taken.directory.display(), bytes(taken.bytes));
        format!("{directory}: {} with {size} in {seconds:.1} s\n", count(taken.partitions, "partition"))
    })?)
}
