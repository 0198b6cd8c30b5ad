//! `kohort version`.

use serde::Serialize;

use crate::cli::OutputArgs;
use crate::output::show;

#[derive(Serialize)]
struct Version {
    version: &'static str,
    /// The newest format of data directories that this binary reads and writes.
    data_format: u32,
}

/// Runs `kohort version`.
pub(crate) fn run(args: OutputArgs) -> anyhow::Result<()> {
    let version = Version { version: env!("CARGO_PKG_VERSION"), data_format: store::FORMAT_VERSION };
    Ok(show(args.output, &version, |version| format!("kohort {}\n", version.version))?)
}
