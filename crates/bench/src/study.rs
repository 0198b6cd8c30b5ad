//! All that a command measured: one run, or one for each value of a sweep.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::figure::Figure;
use crate::page;
use crate::plot::{Curves, Panel};
use crate::report::{Report, align};
use crate::setting;

/// What a command shows in the end.
#[derive(Debug)]
pub(crate) enum Study {
    Single(Report),
    Growth(Growth),
}

/// How figures change with a number.
#[derive(Debug)]
pub(crate) struct Growth {
    /// The number, by the name of its flag.
    pub(crate) name: String,
    /// What was measured at each of its values; never empty.
    pub(crate) runs: Vec<(usize, Report)>,
}

impl Study {
    /// For people.
    pub(crate) fn table(&self) -> String {
        match self {
            Self::Single(report) => report.table(),
            Self::Growth(growth) => growth.table(),
        }
    }

    /// For programs.
    pub(crate) fn json(&self) -> Result<String> {
        let value = match self {
            Self::Single(report) => report.json(),
            Self::Growth(growth) => growth.json(),
        };
        serde_json::to_string_pretty(&value).context("write the figures")
    }

    /// For the eye: a drawing, or by the file's name a page around it.
    pub(crate) fn draw(&self, file: &Path) -> Result<()> {
        let text =
            if file.extension().is_some_and(|end| end == "svg") { self.drawing() } else { page::write(self) };
        fs::write(file, text).with_context(|| format!("write {}", file.display()))
    }

    pub(crate) fn drawing(&self) -> String {
        match self {
            Self::Single(report) => report.bars().draw(),
            Self::Growth(growth) => growth.curves().draw(),
        }
    }

    /// The runs, each with the value that tells it from the others, if any does.
    pub(crate) fn runs(&self) -> Vec<(Option<(&str, usize)>, &Report)> {
        match self {
            Self::Single(report) => vec![(None, report)],
            Self::Growth(growth) => growth
                .runs
                .iter()
                .map(|(value, report)| (Some((growth.name.as_str(), *value)), report))
                .collect(),
        }
    }

    /// What was measured, in a line.
    pub(crate) fn heading(&self) -> String {
        match self {
            Self::Single(report) => report.heading(),
            Self::Growth(growth) => growth.heading(),
        }
    }

    /// The first run, which has the machine and the count of repetitions of all.
    pub(crate) fn first(&self) -> &Report {
        match self {
            Self::Single(report) => report,
            Self::Growth(growth) => &growth.runs[0].1,
        }
    }
}

impl Growth {
    fn heading(&self) -> String {
        let first = &self.runs[0].1;
        let others = first.settings.iter().filter(|setting| setting.flag != self.name);
        setting::sentence(&format!("{} by {}", first.scenario, self.name), others)
    }

    /// A table for each figure that is worth a plot, with a row for each value.
    fn table(&self) -> String {
        let first = &self.runs[0].1;
        let mut text = format!("{}; {}\n", self.heading(), first.footing());
        for figure in self.figures() {
            let _ = writeln!(text, "\n{}", figure.with_unit().trim_start());
            let mut rows = vec![vec![self.name.clone()]];
            rows[0].extend(first.targets().map(str::to_owned));
            for (value, report) in &self.runs {
                let mut row = vec![value.to_string()];
                row.extend((0..report.series.len()).map(|target| report.cell(target, &figure.name)));
                rows.push(row);
            }
            align(&rows, &mut text);
        }
        let mut said: Vec<String> = first.places().collect();
        for (value, report) in &self.runs {
            for (target, doubt) in report.doubts() {
                said.push(format!("note, {target}, {} {value}: {doubt}", self.name));
            }
        }
        if !said.is_empty() {
            let _ = writeln!(text, "\n{}", said.join("\n"));
        }
        text
    }

    fn json(&self) -> Value {
        let first = &self.runs[0].1;
        let run = |(value, report): &(usize, Report)| json!({ "value": value, "run": report.json() });
        json!({
            "scenario": first.scenario,
            "sweep": self.name,
            "command": first.command,
            "repetitions": first.repetitions,
            "machine": first.machine,
            "version": env!("CARGO_PKG_VERSION"),
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
        })
    }

    fn curves(&self) -> Curves {
        let targets: Vec<&str> = self.runs[0].1.targets().collect();
        let panel = |figure: &&Figure| {
            let curve = |(target, name): (usize, &&str)| {
                let point = |(value, report): &(usize, Report)| {
                    #[expect(clippy::cast_precision_loss, reason = "a count of members or partitions")]
                    let along = *value as f64;
                    Some((along, report.spread(target, &figure.name)?))
                };
                let points: Vec<_> = self.runs.iter().filter_map(point).collect();
                (!points.is_empty()).then(|| ((*name).to_owned(), points))
            };
            Panel {
                name: figure.with_unit().trim_start().to_owned(),
                aim: figure.aim(),
                curves: targets.iter().enumerate().filter_map(curve).collect(),
            }
        };
        Curves {
            title: self.heading(),
            along: self.name.clone(),
            panels: self.figures().iter().map(panel).collect(),
        }
    }

    fn figures(&self) -> Vec<&Figure> {
        self.runs[0].1.names().into_iter().filter(|figure| figure.plotted).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::tests::report;

    pub(crate) fn growth() -> Study {
        let runs = vec![(1, report()), (100, report())];
        Study::Growth(Growth { name: "members".to_owned(), runs })
    }

    #[test]
    fn what_varies_has_no_value_in_the_heading() {
        let by = |name: &str| Growth { name: name.to_owned(), runs: vec![(1, report())] }.heading();
        assert_eq!(by("members"), "heartbeat by members: groups of members 1");
        assert_eq!(by("groups"), "heartbeat by groups: members 64");
    }

    #[test]
    fn a_sweep_is_a_table_for_each_figure() {
        expect![[r#"
            heartbeat by members: groups of members 1; measured 2 times, 2 cores

            heartbeats per second, 1 in flight
            members                    kafka                               kohort
            1         65,000 (60,000–70,000)   682,284 (130,000–1,234,567)  ×6.18
            100       65,000 (60,000–70,000)   682,284 (130,000–1,234,567)  ×6.18

            latency p50, 1 in flight, ms
            members                 kafka                        kohort
            1         0.850 (0.800–0.900)   0.064 (0.064–0.064)  ×0.075
            100       0.850 (0.800–0.900)   0.064 (0.064–0.064)  ×0.075

            kafka: 127.0.0.1:19092
            kohort: 127.0.0.1:9092, process 4711 (kohort)
            note, kohort, members 1: 1 in flight: the load took 1.1 cores
            note, kohort, members 100: 1 in flight: the load took 1.1 cores
        "#]]
        .assert_eq(&growth().table());
    }

    #[test]
    fn the_json_has_settings_machine_and_every_repetition() {
        let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
        let text = Study::Single(report()).json().expect("json").replace(&version, "\"VERSION\"");
        expect![[r#"
            {
              "command": "kohort bench heartbeat --compare 'a<b=c'",
              "duration_seconds": 5.0,
              "machine": {
                "cores": 2,
                "kernel": "6.1",
                "memory": "8 kB",
                "memory_bytes": 8192,
                "processor": "a fast one"
              },
              "repetitions": 2,
              "scenario": "heartbeat",
              "settings": {
                "groups": "1",
                "members": "64",
                "server_threads": "1"
              },
              "targets": [
                {
                  "address": "127.0.0.1:19092",
                  "figures": [
                    {
                      "better": "higher",
                      "high": 70000.0,
                      "low": 60000.4,
                      "median": 65000.2,
                      "name": "heartbeats per second, 1 in flight",
                      "ratio": null,
                      "unit": "/s",
                      "values": [
                        60000.4,
                        70000.0
                      ]
                    },
                    {
                      "better": "lower",
                      "high": 0.9,
                      "low": 0.8,
                      "median": 0.8500000000000001,
                      "name": "latency p50, 1 in flight",
                      "ratio": null,
                      "unit": "ms",
                      "values": [
                        0.8,
                        0.9
                      ]
                    },
                    {
                      "better": "neither",
                      "high": 1.0,
                      "low": 1.0,
                      "median": 1.0,
                      "name": "generations",
                      "ratio": null,
                      "unit": "",
                      "values": [
                        1.0,
                        1.0
                      ]
                    }
                  ],
                  "name": "kafka",
                  "notes": [],
                  "process": null
                },
                {
                  "address": "127.0.0.1:9092",
                  "figures": [
                    {
                      "better": "higher",
                      "high": 1234567.0,
                      "low": 130000.0,
                      "median": 682283.5,
                      "name": "heartbeats per second, 1 in flight",
                      "ratio": 6.181628696793088,
                      "unit": "/s",
                      "values": [
                        1234567.0,
                        130000.0
                      ]
                    },
                    {
                      "better": "lower",
                      "high": 0.064,
                      "low": 0.064,
                      "median": 0.064,
                      "name": "latency p50, 1 in flight",
                      "ratio": 0.07542472332656504,
                      "unit": "ms",
                      "values": [
                        0.064,
                        0.064
                      ]
                    }
                  ],
                  "name": "kohort",
                  "notes": [
                    "1 in flight: the load took 1.1 cores"
                  ],
                  "process": {
                    "name": "kohort",
                    "pid": 4711
                  }
                }
              ],
              "version": "VERSION",
              "warmup_seconds": 0.5
            }"#]]
        .assert_eq(&text);
    }

    #[test]
    fn the_json_of_a_sweep_has_every_run() {
        let value: Value = serde_json::from_str(&growth().json().expect("json")).expect("json again");
        assert_eq!(value["sweep"], "members");
        assert_eq!(value["runs"][1]["value"], 100);
        assert_eq!(value["runs"][1]["run"]["targets"][0]["name"], "kafka");
        assert_eq!(value["machine"]["cores"], 2);
    }

    #[test]
    fn a_file_is_a_page_or_a_drawing_by_its_name() {
        let drawing = growth().drawing();
        assert!(drawing.starts_with("<svg "), "{drawing}");
        assert_eq!(drawing.matches("<polyline").count(), 4, "two targets, a rate and a latency");
        assert!(Study::Single(report()).drawing().contains("×6.18"));
    }
}
