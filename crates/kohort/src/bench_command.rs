//! `kohort bench`: what another crate measures, with our exit codes.

use crate::failure::{Failure, Kind};

/// Measures and shows the figures; fails when any reply was wrong.
pub(crate) fn run(command: bench::Command) -> anyhow::Result<()> {
    bench::run(command).map_err(|error| {
        if error.chain().any(|cause| cause.is::<bench::Unreachable>()) {
            return Failure::new(Kind::Unreachable, format!("{error:#}")).into();
        }
        if error.chain().any(|cause| cause.is::<bench::Misuse>()) {
            return Failure::new(Kind::Usage, format!("{error:#}")).into();
        }
        error
    })
}
