//! Log lines on standard error: text for people, JSON on request.

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::cli::{LogArgs, LogFormat};
use crate::configuration::LogVariables;
use crate::failure::{Failure, Kind};
use crate::telemetry::Telemetry;

/// Starts logging as the flags say, else the environment, else plainly; says how lines are written.
///
/// Spans go to `telemetry` if there is one, whatever is logged.
pub(crate) fn start(
    args: &LogArgs,
    variables: &LogVariables,
    telemetry: Option<&Telemetry>,
) -> anyhow::Result<LogFormat> {
    let format = match (args.log_format, variables.format.as_deref()) {
        (Some(format), _) => format,
        (None, None | Some("text")) => LogFormat::Text,
        (None, Some("json")) => LogFormat::Json,
        (None, Some(other)) => {
            let message = format!("KOHORT_LOG_FORMAT: {other} is neither text nor json");
            return Err(Failure::new(Kind::Usage, message).into());
        }
    };
    let level = args.log.as_deref().or(variables.level.as_deref()).unwrap_or("info");
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Failure::new(Kind::Usage, format!("--log {level}: {error}; try error, warn, info, debug or trace"))
    })?;
    let lines = fmt::layer()
        .with_writer(io::stderr)
        // What cannot be written is dropped. To complain about it on standard error, as is the default, panics when
        // that is what fails: behind a pipe that nobody reads, or on the disk that is full already.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = match telemetry {
        // One filter for all is asked once for each place in the code that logs, and never again.
        None => tracing_subscriber::registry().with(lines).with(filter).try_init(),
        Some(telemetry) => {
            tracing_subscriber::registry().with(lines.with_filter(filter)).with(telemetry.layer()).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("start logging: {error}"))?;
    Ok(format)
}
