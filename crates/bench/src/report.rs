//! Figures of one run over targets and repetitions: as a table, as JSON, as bars.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::{Place, Target};
use crate::figure::{Better, Doubt, Figure, Outcome};
use crate::machine::Machine;
use crate::number;
use crate::plot::{Aim, BarFigure, Bars};
use crate::setting::{self, Setting};
use crate::statistics::{Spread, ratio_in_turns};

/// What a command shows in the end.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) settings: Vec<Setting>,
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) repetitions: u16,
    /// What somebody types to repeat it.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    /// By target, the one that ratios refer to first.
    pub(crate) series: Vec<Series>,
}

/// One target's figures over the repetitions.
#[derive(Debug)]
pub(crate) struct Series {
    name: String,
    /// Where the server is, unless it is our own.
    address: Option<SocketAddr>,
    /// Its number and name, when it is on this machine.
    process: Option<(u32, String)>,
    rows: Vec<Row>,
    doubts: Vec<Doubt>,
}

#[derive(Debug)]
struct Row {
    figure: Figure,
    values: Vec<f64>,
}

impl Series {
    pub(crate) fn new(target: &Target) -> Self {
        let (address, process) = match target.place {
            Place::Server(address, process) => (Some(address), process),
            Place::Echo | Place::Here => (None, None),
        };
        let process = process.map(|it| (it.pid, it.name().unwrap_or_default()));
        Self { name: target.name.clone(), address, process, rows: Vec::new(), doubts: Vec::new() }
    }

    /// Adds one repetition.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        for figure in outcome.figures {
            match self.rows.iter_mut().find(|row| row.figure.name == figure.name) {
                Some(row) => row.values.push(figure.value),
                None => self.rows.push(Row { values: vec![figure.value], figure }),
            }
        }
        for doubt in outcome.doubts {
            doubt.join(&mut self.doubts);
        }
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.figure.name == name)
    }
}

impl Row {
    fn spread(&self) -> Spread {
        Spread::of(&self.values).expect("a row begins with a value")
    }
}

impl Report {
    /// What was measured and how, in a line.
    pub(crate) fn heading(&self) -> String {
        setting::sentence(self.scenario, self.settings.iter())
    }

    /// Which server each target is; a line each, for those that are none of our own.
    pub(crate) fn places(&self) -> impl Iterator<Item = String> {
        self.series.iter().filter_map(|Series { name, address, process, .. }| {
            let address = (*address)?;
            Some(match process {
                Some((pid, called)) => format!("{name}: {address}, process {pid} ({called})"),
                None => format!("{name}: {address}"),
            })
        })
    }

    /// How often, and on how much.
    pub(crate) fn footing(&self) -> String {
        let often = match self.repetitions {
            1 => "once".to_owned(),
            more => format!("{more} times"),
        };
        format!("measured {often}, {} cores", self.machine.cores)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{}; {}\n", self.heading(), self.footing());
        align(&self.rows(), &mut text);
        for place in self.places() {
            let _ = writeln!(text, "{place}");
        }
        for (target, doubt) in self.doubts() {
            let _ = writeln!(text, "note, {target}: {doubt}");
        }
        text
    }

    /// What speaks against trusting the figures, by target.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = (&str, &Doubt)> {
        self.series.iter().flat_map(|series| series.doubts.iter().map(|it| (series.name.as_str(), it)))
    }

    /// A heading, then a row for each figure, with a cell for each target.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(self.series.iter().map(|series| series.name.clone()));
        for figure in self.names() {
            let mut row = vec![figure.with_unit()];
            row.extend((0..self.series.len()).map(|target| self.cell(target, &figure.name)));
            rows.push(row);
        }
        rows
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let figure = |target: usize, row: &Row| {
            let spread = row.spread();
            json!({
                "name": row.figure.name.trim_start(),
                "unit": row.figure.unit,
                "better": row.figure.better,
                "median": spread.median,
                "low": spread.low,
                "high": spread.high,
                "values": row.values,
                "ratio": self.ratio(target, &row.figure.name),
            })
        };
        let target = |(number, series): (usize, &Series)| {
            json!({
                "name": series.name,
                "address": series.address,
                "process": series.process.as_ref().map(|(pid, name)| json!({ "pid": pid, "name": name })),
                "figures": series.rows.iter().map(|row| figure(number, row)).collect::<Vec<_>>(),
                "notes": series.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>(),
            })
        };
        json!({
            "scenario": self.scenario,
            "settings": setting::json(&self.settings),
            "command": self.command,
            "duration_seconds": self.duration.as_secs_f64(),
            "warmup_seconds": self.warmup.as_secs_f64(),
            "repetitions": self.repetitions,
            "machine": self.machine,
            "version": env!("CARGO_PKG_VERSION"),
            "targets": self.series.iter().enumerate().map(target).collect::<Vec<_>>(),
        })
    }

    /// For the eye.
    pub(crate) fn bars(&self) -> Bars {
        let figure = |figure: &&Figure| {
            let bar = |target: usize| {
                let spread = self.spread(target, &figure.name)?;
                let remark = self
                    .ratio(target, &figure.name)
                    .map_or(String::new(), |it| format!("×{}", number::ratio(it)));
                Some((self.series[target].name.clone(), spread, remark))
            };
            BarFigure {
                name: figure.with_unit().trim_start().to_owned(),
                aim: figure.aim(),
                bars: (0..self.series.len()).filter_map(bar).collect(),
            }
        };
        let figures = self.names();
        let plotted = figures.iter().filter(|figure| figure.plotted);
        Bars { title: self.heading(), figures: plotted.map(figure).collect() }
    }

    /// The names of the targets.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|series| series.name.as_str())
    }

    /// What a target reached.
    pub(crate) fn spread(&self, target: usize, name: &str) -> Option<Spread> {
        self.series.get(target)?.row(name).map(Row::spread)
    }

    /// The figures that any target has. One that an earlier target has not stands behind its neighbour.
    pub(crate) fn names(&self) -> Vec<&Figure> {
        let mut names: Vec<&Figure> = Vec::new();
        for series in &self.series {
            let mut place = 0;
            for Row { figure, .. } in &series.rows {
                let known = names.iter().position(|known| known.name == figure.name);
                if known.is_none() {
                    names.insert(place, figure);
                }
                place = known.unwrap_or(place) + 1;
            }
        }
        names
    }

    /// A target's median, its range, and its ratio to the first target.
    pub(crate) fn cell(&self, target: usize, name: &str) -> String {
        let Some(row) = self.series[target].row(name) else { return "–".to_owned() };
        let spread = row.spread();
        let mut text = number::grouped(spread.median);
        if row.values.len() > 1 {
            let _ = write!(text, " ({}–{})", number::grouped(spread.low), number::grouped(spread.high));
        }
        if let Some(ratio) = self.ratio(target, name) {
            let _ = write!(text, "  ×{}", number::ratio(ratio));
        }
        text
    }

    /// A later target's figure over the first one's; none for the first, and none for what is no aim.
    fn ratio(&self, target: usize, name: &str) -> Option<f64> {
        let row = self.series[target].row(name)?;
        if target == 0 || row.figure.better == Better::Neither {
            return None;
        }
        ratio_in_turns(&row.values, &self.series[0].row(name)?.values).map(|ratio| ratio.median)
    }
}

impl Figure {
    /// The name with its unit; a rate says so in its name.
    pub(crate) fn with_unit(&self) -> String {
        match self.unit {
            "" | "/s" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }

    /// Which way is better, as far as it is plotted at all.
    pub(crate) fn aim(&self) -> Aim {
        match self.better {
            Better::Higher => Aim::More,
            Better::Lower | Better::Neither => Aim::Less,
        }
    }
}

/// Puts cells below each other: names to the left, figures to the right.
pub(crate) fn align(rows: &[Vec<String>], text: &mut String) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            if column == 0 {
                let _ = write!(line, "{cell}{pad}");
            } else {
                let _ = write!(line, "   {pad}{cell}");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::expect;

    use super::*;
    use crate::figure::DoubtKind;

    pub(crate) fn report() -> Report {
        let run = |rate: f64, millis: u64| {
            let mut outcome = Outcome::default();
            outcome.add("heartbeats per second, 1 in flight", "/s", Better::Higher, rate);
            outcome.time("  latency p50, 1 in flight", Duration::from_micros(millis)).plotted = true;
            outcome.count("generations", 1);
            outcome
        };
        let series = |name: &str, port: u16| {
            let place = Place::Server(([127, 0, 0, 1], port).into(), None);
            Series::new(&Target { name: name.to_owned(), place })
        };
        let mut kafka = series("kafka", 19092);
        kafka.add(run(60_000.4, 800));
        kafka.add(run(70_000.0, 900));
        let mut kohort = series("kohort", 9092);
        kohort.process = Some((4711, "kohort".to_owned()));
        kohort.add(run(1_234_567.0, 64));
        kohort.add(run(130_000.0, 64));
        for gravity in [1.1, 1.0] {
            let (about, kind) = ("1 in flight".to_owned(), DoubtKind::Load);
            let reason = format!("the load took {gravity} cores");
            let mut outcome = Outcome::default();
            outcome.doubts.push(Doubt { about, kind, gravity, reason });
            kohort.add(outcome);
        }
        kohort.rows.pop();
        let machine = Machine {
            cores: 2,
            processor: "a fast one".to_owned(),
            memory: "8 kB".to_owned(),
            memory_bytes: Some(8192),
            kernel: "6.1".to_owned(),
        };
        Report {
            scenario: "heartbeat",
            settings: vec![
                Setting::new("members", 64),
                Setting::called("groups", "groups of members", 1),
                Setting::unsaid("server-threads", 1),
            ],
            duration: Duration::from_secs(5),
            warmup: Duration::from_millis(500),
            repetitions: 2,
            command: "kohort bench heartbeat --compare 'a<b=c'".to_owned(),
            machine,
            series: vec![kafka, kohort],
        }
    }

    #[test]
    fn the_table_has_medians_ranges_and_ratios() {
        expect![[r#"
            heartbeat: members 64, groups of members 1; measured 2 times, 2 cores
                                                                  kafka                               kohort
            heartbeats per second, 1 in flight   65,000 (60,000–70,000)   682,284 (130,000–1,234,567)  ×6.18
              latency p50, 1 in flight, ms          0.850 (0.800–0.900)          0.064 (0.064–0.064)  ×0.075
            generations                                         1 (1–1)                                    –
            kafka: 127.0.0.1:19092
            kohort: 127.0.0.1:9092, process 4711 (kohort)
            note, kohort: 1 in flight: the load took 1.1 cores
        "#]]
        .assert_eq(&report().table());
    }

    #[test]
    fn the_json_has_every_repetition() {
        let value = report().json();
        let figure = &value["targets"][1]["figures"][0];
        assert_eq!(figure["values"], json!([1_234_567.0, 130_000.0]));
        assert_eq!(figure["better"], "higher");
        assert!(figure["ratio"].as_f64().is_some_and(|ratio| ratio > 6.0 && ratio < 6.5));
        assert_eq!(value["targets"][0]["figures"][0]["ratio"], Value::Null);
        assert_eq!(value["settings"]["members"], "64");
        assert_eq!(value["machine"]["cores"], 2);
    }

    #[test]
    fn there_is_no_ratio_to_less_than_nothing() {
        let mut report = report();
        let name = "heartbeats per second, 1 in flight";
        for (first, own, expected) in
            [(4.0, 2.0, Some(0.5)), (-4.0, 2.0, None), (4.0, -2.0, None), (0.0, 2.0, None)]
        {
            report.series[0].rows[0].values = vec![first];
            report.series[1].rows[0].values = vec![own];
            assert_eq!(report.ratio(1, name), expected);
        }
    }
}
