//! What a member prints about itself; `clients/python/member.py` describes the lines.

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};

/// A moment of CLOCK_MONOTONIC, in nanoseconds; the same clock for all processes of a machine.
pub(crate) type Moment = u64;

/// One thing that happened to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Moment,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// It owns these from now on, beside those it has.
    Assigned(Vec<usize>),
    /// It gave these up in good order.
    Revoked(Vec<usize>),
    /// These were taken from it.
    Lost(Vec<usize>),
    /// It processed a record.
    Record { partition: usize, offset: i64, value: i64 },
    /// The broker acknowledged these offsets.
    Committed(Vec<(usize, i64)>),
    /// For a person to read.
    Trouble(String),
    /// It left the group.
    Left,
}

impl Event {
    /// Reads a line that a member printed.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let context = || format!("read {line:?}");
        let mut words = line.splitn(3, ' ');
        let at = words.next().context("a time")?.parse().with_context(context)?;
        let (event, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let what = match event {
            "assigned" => What::Assigned(list(rest).with_context(context)?),
            "revoked" => What::Revoked(list(rest).with_context(context)?),
            "lost" => What::Lost(list(rest).with_context(context)?),
            "record" => {
                let [partition, offset, value] =
                    rest.split(' ').collect::<Vec<_>>().try_into().ok().with_context(context)?;
                What::Record {
                    partition: partition.parse().with_context(context)?,
                    offset: offset.parse().with_context(context)?,
                    value: value.parse().with_context(context)?,
                }
            }
            "committed" => What::Committed(
                rest.split(',')
                    .map(|pair| {
                        let (partition, offset) = pair.split_once(':').context("a pair")?;
                        Ok((partition.parse()?, offset.parse()?))
                    })
                    .collect::<Result<_>>()
                    .with_context(context)?,
            ),
            "trouble" => What::Trouble(rest.to_owned()),
            "left" => What::Left,
            _ => bail!("a member printed {line:?}"),
        };
        Ok(Self { at, what })
    }
}

fn list(text: &str) -> Result<Vec<usize>> {
    let numbers = text.split(',').filter(|it| !it.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    Ok(numbers)
}

/// What the clock of the members shows now.
pub(crate) fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}
