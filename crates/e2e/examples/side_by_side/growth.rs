//! How cost grows with members, groups and partitions, drawn beside Kafka.

use anyhow::{Context, Result};

use crate::Scale;
use crate::generator::{Generator, On, Points};
use crate::page::{Page, median};

/// A drawing: its file, what it shows, and how it is measured.
struct Drawing {
    file: &'static str,
    caption: &'static str,
    arguments: &'static [&'static str],
    /// The number that grows, and its values.
    along: &'static str,
    values: &'static [usize],
}

const OF_GROUPS: [Drawing; 5] = [
    Drawing {
        file: "heartbeat-by-members.svg",
        caption: "Heartbeats of the members of one group",
        arguments: &["heartbeat", "--groups", "1", "--pipeline", "1", "--with-echo"],
        along: "members",
        values: &[1, 10, 100, 1000],
    },
    Drawing {
        file: "heartbeat-by-groups.svg",
        caption: "Heartbeats of 1,000 members in more and more groups",
        arguments: &["heartbeat", "--members", "1000", "--pipeline", "1"],
        along: "groups",
        values: &[1, 10, 100, 1000],
    },
    Drawing {
        file: "commit-by-groups.svg",
        caption: "Commits over 64 connections, 64 in flight on each, to more and more groups",
        arguments: &["commit", "--pipeline", "64"],
        along: "groups",
        values: &[1, 10, 100, 1000],
    },
    Drawing {
        file: "commit-by-partitions.svg",
        caption: "Commits of more and more partitions at once, one in flight on each of 64 connections",
        arguments: &["commit", "--pipeline", "1"],
        along: "partitions",
        values: &[1, 10, 100],
    },
    Drawing {
        file: "join-by-members.svg",
        caption: "Members that start at once, then one more",
        arguments: &["join"],
        along: "members",
        values: &[1, 10, 100, 1000],
    },
];

const OF_RECORDS: Drawing = Drawing {
    file: "produce-by-partitions.svg",
    caption: "The same batches of 16 KiB, spread over more and more partitions",
    arguments: &["produce", "--pipeline", "5"],
    along: "partitions",
    values: &[1, 10, 100, 1000],
};

/// Measures and draws all that concerns groups.
pub(crate) fn of_groups(scale: Scale, on: &On, generator: &mut Generator, page: &mut Page) -> Result<()> {
    OF_GROUPS.iter().try_for_each(|drawing| drawing.make(scale, on, generator, page).map(|_| ()))
}

/// Measures and draws records over partitions.
pub(crate) fn of_records(
    scale: Scale,
    on: &On,
    generator: &mut Generator,
    page: &mut Page,
) -> Result<Points> {
    OF_RECORDS.make(scale, on, generator, page)
}

impl Drawing {
    fn make(&self, scale: Scale, on: &On, generator: &mut Generator, page: &mut Page) -> Result<Points> {
        let sweep = sweep(self.along, self.values.iter().copied().filter(|it| *it <= scale.large_group));
        let arguments = [self.arguments, &["--sweep", &sweep]].concat();
        let points = generator.sweep(&arguments, on, Some(self.file))?;
        page.note_points(&format!("{} by {}", self.arguments[0], self.along), &points);
        page.show(self.file, self.caption);
        Ok(points)
    }
}

/// The argument of `--sweep`.
pub(crate) fn sweep(along: &str, values: impl Iterator<Item = usize>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    format!("{along}={}", values.join(","))
}

impl Points {
    /// A figure at the last value over the same at the first.
    pub(crate) fn growth(&self, target: &str, name: &str) -> Result<f64> {
        let (first, last) = (self.0.first().context("no first run")?, self.0.last().context("no last run")?);
        Ok(median(&last.1.values(target, name)?) / median(&first.1.values(target, name)?))
    }
}
