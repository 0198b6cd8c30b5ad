//! Log lines on standard error: text for people, JSON on request.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::cli::{LogArgs, LogFormat};
use crate::configuration::LogVariables;
use crate::failure::{Failure, Kind};

/// Starts logging as the flags say, else the environment, else plainly; says how lines are written.
pub(crate) fn start(args: &LogArgs, variables: &LogVariables) -> anyhow::Result<LogFormat> {
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
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // What cannot be written is dropped. To complain about it on standard error, as is the default, panics when
        // that is what fails: behind a pipe that nobody reads, or on the disk that is full already.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => subscriber.with_target(false).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("start logging: {error}"))?;
    Ok(format)
}
