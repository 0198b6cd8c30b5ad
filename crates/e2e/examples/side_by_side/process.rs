//! What the kernel knows of a broker's process.

use anyhow::Result;
use bench::ServerProcess;

/// Resident memory in megabytes.
pub(crate) fn megabytes(pid: u32) -> Result<f64> {
    #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
    ServerProcess { pid }.resident().map(|bytes| bytes as f64 / 1e6)
}
