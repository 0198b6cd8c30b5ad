//! Figures gathered over repetitions, and the page and the plot made of them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use bench::plot::{Aim, BarFigure, Bars, Spread};

use crate::Scale;
use crate::beside::{self, Beside};
use crate::generator::{Figures, Points};
use crate::owed::Owed;

/// Where what people wrote begins, which a new run keeps.
const KEPT_FROM: &str = "\n## Reading these figures\n";

/// Stands below that heading until somebody has read the new figures and taken it away.
const OF_AN_EARLIER_RUN: &str = "\nWritten for an earlier run; the figures that it names are of that run.\n";

/// What was measured so far.
pub(crate) struct Page {
    subject: Subject,
    scale: Scale,
    /// Why this page is no result, if it is none.
    warnings: Vec<String>,
    rows: Vec<Row>,
    /// What the load generator says against trusting its own figures.
    notes: Vec<String>,
    /// What was measured, on what.
    facts: Vec<(&'static str, String)>,
    /// How the generator was called.
    pub(crate) commands: Vec<String>,
    /// Drawings by file and what they show, in order.
    drawings: Vec<(&'static str, &'static str)>,
}

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Kohort and Kafka, side by side.
    Brokers,
    /// The assigner, which Kafka has not.
    Assigner,
    /// Gateways apart from the broker, and TLS.
    Gateways,
}

impl Subject {
    /// Where it is written.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Brokers => "benchmarks.md",
            Self::Assigner => "assigner-benchmarks.md",
            Self::Gateways => "gateway-benchmarks.md",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Brokers => "Kohort beside Apache Kafka",
            Self::Assigner => "The assigner, measured",
            Self::Gateways => "Gateways apart and TLS, measured",
        }
    }

    fn introduction(self) -> &'static str {
        match self {
            Self::Brokers => {
                "Made by `cargo xtask bench`, which repeats it on your machine. Both brokers ran with their defaults on \
                 the cores that the load used too; only the Kohort that had to read back unsettled records was told, by \
                 the settings in its command below, not to settle them before. Kohort's acknowledgement means that the \
                 record or commit is on disk; Kafka's does not. All figures but those of lone consumers alternated \
                 between the brokers."
            }
            Self::Assigner => {
                "Made by `cargo xtask bench --assigner`, which repeats it on your machine: one `kohort assigner` with its \
                 defaults, an etcd of one node that waits for the disk, a Kohort for the topic, and the consumers, all on \
                 the same cores."
            }
            Self::Gateways => {
                "Made by `cargo xtask bench --gateways`, which repeats it on your machine. One Kohort in one process and one \
                 broker with a gateway apart from it ran at the same time with their defaults, all on the cores that the \
                 load used too, and the load turned from one to the other. So a gateway apart has no core more than one \
                 process has, and pays for the way between from the same ones. Records are consumed again and again, so \
                 after the first time a gateway has them in its memory; what it reads for the first time comes at the \
                 speed of QUIC. The heartbeats that a connection has in flight are all the same; those that a gateway \
                 reads together its broker hears once and answers as often, where one process hears each. Commits are \
                 carried out one by one in both."
            }
        }
    }

    fn how_to_repeat(self) -> &'static str {
        match self {
            Self::Brokers => {
                "`cargo xtask bench` starts the brokers and runs these, `KOHORT` and `KAFKA` being their addresses; each \
                 works by itself on any server. `recovery` starts the server itself: `DATA` is an empty directory, `JARS` \
                 holds Kafka's jars, and `PROPERTIES` is a server.properties whose storage was formatted and which listens \
                 on `KAFKA`. For records it also runs librdkafka's `rdkafka_performance -P -s 1024 -a -1` and `-C -o \
                 beginning`, and Kafka's `ProducerPerformance --record-size 1024` with `acks=all`, on one partition each."
            }
            Self::Assigner => {
                "`KOHORT` is where the topic is made, and `ASSIGNER` the address of the assigner. It works with any of \
                 them that runs; say how long its debounce is with `--debounce`."
            }
            Self::Gateways => {
                "`KOHORT` is the address of one process and `GATEWAY` that of a gateway. TLS is measured by Kafka's \
                 `ProducerPerformance --record-size 1024` with `acks=all`, on one partition."
            }
        }
    }
}

/// One figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct What {
    pub(crate) part: Part,
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) aim: Aim,
}

/// Which table a figure stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Groups,
    Records,
    Assigner,
    Gateways,
}

impl Part {
    fn heading(self) -> &'static str {
        match self {
            Self::Groups => "Groups",
            Self::Records => "Records and the process",
            Self::Assigner => "The assigner",
            Self::Gateways => "Gateways apart, and TLS",
        }
    }

    fn drawing(self) -> &'static str {
        match self {
            Self::Groups => "groups.svg",
            Self::Records => "records.svg",
            Self::Assigner => "assigner.svg",
            Self::Gateways => "gateways.svg",
        }
    }
}

struct Row {
    what: What,
    kohort: Vec<f64>,
    kafka: Beside,
    owed: Option<Owed>,
}

impl Page {
    pub(crate) fn new(subject: Subject, scale: Scale, facts: Vec<(&'static str, String)>) -> Self {
        Self {
            subject,
            scale,
            warnings: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            facts,
            commands: Vec::new(),
            drawings: Vec::new(),
        }
    }

    /// What it is about.
    pub(crate) fn subject(&self) -> Subject {
        self.subject
    }

    /// Says on top of the page why its figures are not what they seem.
    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// The row of a figure, which is made when it is new.
    fn row(&mut self, what: What) -> &mut Row {
        let known = self.rows.iter().position(|row| row.what.name == what.name);
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row { what, kohort: Vec::new(), kafka: Beside::default(), owed: None });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// Adds values to a figure, which gets a row when it is new.
    pub(crate) fn add(&mut self, what: What, is_kohort: bool, values: Vec<f64>) {
        let row = self.row(what);
        if is_kohort { row.kohort.extend(values) } else { row.kafka.values.extend(values) }
    }

    /// Adds one figure of both brokers, which took turns.
    pub(crate) fn compare(&mut self, what: What, figures: &Figures, name: &str) -> Result<()> {
        self.add(what, true, figures.values("kohort", name)?);
        self.add(what, false, figures.values("kafka", name)?);
        self.row(what).kafka.in_turns = true;
        Ok(())
    }

    /// Says what Kohort owes of a figure that was added.
    pub(crate) fn owe(&mut self, what: What, owed: Owed) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.what.name == what.name) {
            row.owed = Some(owed);
        }
    }

    /// Keeps what a run says against its own figures.
    pub(crate) fn note(&mut self, run: &str, figures: &Figures) {
        for note in figures.notes() {
            println!("note, {run}: {note}");
            self.notes.push(format!("{run}: {note}"));
        }
    }

    /// Keeps that points of a drawing have such notes.
    pub(crate) fn note_points(&mut self, run: &str, points: &Points) {
        let doubtful = points.0.iter().filter(|(_, figures)| !figures.notes().is_empty()).count();
        if doubtful > 0 {
            self.notes.push(format!("{run}: there are notes at {doubtful} of {} points", points.0.len()));
        }
    }

    /// Shows a drawing that the generator has made.
    pub(crate) fn show(&mut self, file: &'static str, caption: &'static str) {
        self.drawings.push((file, caption));
    }

    /// The figures, part by part.
    pub(crate) fn tables(&self) -> String {
        self.parts().map(|part| self.table(part)).chain([self.sum()]).collect()
    }

    /// The parts that were measured.
    fn parts(&self) -> impl Iterator<Item = Part> {
        [Part::Groups, Part::Records, Part::Assigner, Part::Gateways]
            .into_iter()
            .filter(|part| self.rows_of(*part).count() > 0)
    }

    fn rows_of(&self, part: Part) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.what.part == part)
    }

    fn table(&self, part: Part) -> String {
        let mut text = format!(
            "## {}\n\n| what | Kohort | Kafka | Kohort / Kafka | owed | measured | met |\n|---|---|---|---|---|---|---|\n",
            part.heading()
        );
        self.rows_of(part).for_each(|row| text.push_str(&row.line()));
        text.push('\n');
        text
    }

    fn sum(&self) -> String {
        let owed = self.rows.iter().filter(|row| !matches!(row.owed, Some(Owed::Nothing { .. })));
        let judged = owed.filter_map(|row| Some(row.verdict()?.met));
        let (met, all) = judged.fold((0, 0), |(met, all), is_met| (met + usize::from(is_met), all + 1));
        format!("{met} of {all} promises are met.\n")
    }

    /// Writes the page to a directory, and the drawing of the comparison beside the other drawings. What people wrote
    /// below the figures of the page that was published `before` stays.
    pub(crate) fn write(&self, directory: &Path, before: &Path) -> Result<()> {
        for part in self.parts() {
            if let Some(overview) = self.overview(part) {
                fs::write(directory.join(crate::DRAWINGS).join(part.drawing()), overview.draw())
                    .context("write a drawing")?;
            }
        }
        let path = directory.join(self.subject.file());
        let old = fs::read_to_string(before.join(self.subject.file())).unwrap_or_default();
        fs::write(&path, self.text(&old)).with_context(|| format!("write {}", path.display()))
    }

    fn text(&self, old: &str) -> String {
        let mut text = format!("# {}\n\n", self.subject.title());
        for warning in &self.warnings {
            let _ = write!(text, "**{warning}**\n\n");
        }
        let _ = write!(
            text,
            "{} Figures with a range are medians over {} repetitions, with the lowest and the highest beside them; figures \
             without a range were taken once, or are ratios of such medians. [measuring.md](measuring.md) says how each is \
             taken.{}\n\n",
            self.subject.introduction(),
            self.scale.repetitions,
            match self.subject {
                Subject::Assigner => String::new(),
                Subject::Brokers | Subject::Gateways => format!(
                    " A ratio with a range was taken in each repetition. Heartbeats were repeated {} times, for {} each.",
                    self.scale.turns, self.scale.turn
                ),
            }
        );
        for (name, fact) in &self.facts {
            let _ = writeln!(text, "- {name}: {fact}");
        }
        text.push('\n');
        text.push_str(&self.sum());
        for part in self.parts() {
            let _ = write!(text, "\n{}", self.table(part));
            if self.overview(part).is_some() {
                let (file, heading) = (part.drawing(), part.heading());
                let _ = writeln!(text, "![{heading}, side by side](benchmarks/{file})");
            }
        }
        if !self.drawings.is_empty() {
            text.push_str("\n## How cost grows\n");
        }
        for (file, caption) in &self.drawings {
            let _ = write!(text, "\n{caption}:\n\n![{caption}](benchmarks/{file})\n");
        }
        if !self.notes.is_empty() {
            text.push_str("\n## What speaks against these figures\n\nThe load generator says:\n\n");
            for note in &self.notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        let _ = write!(text, "\n## Commands\n\n{}\n\n```sh\n", self.subject.how_to_repeat());
        for command in &self.commands {
            let _ = writeln!(text, "{command}");
        }
        text.push_str("```\n");
        text + &kept(old)
    }

    /// What both brokers do, drawn; nothing of the assigner, which Kafka has not.
    fn overview(&self, part: Part) -> Option<Bars> {
        let both = self.rows_of(part).filter(|row| !row.kohort.is_empty() && !row.kafka.values.is_empty());
        let figure = |row: &Row| {
            let bar = |name: &str, values: &[f64], remark: String| {
                Spread::of(values).map(|spread| (name.to_owned(), spread, remark))
            };
            let ratio = row.kafka.under(&row.kohort);
            let ratio = ratio.map_or(String::new(), |it| format!("×{}", bench::plot::ratio(it.median)));
            let bars = [bar("kohort", &row.kohort, ratio), bar("kafka", &row.kafka.values, String::new())];
            BarFigure { name: row.name(), aim: row.what.aim, bars: bars.into_iter().flatten().collect() }
        };
        let figures: Vec<BarFigure> = both.map(figure).collect();
        let title = format!("{}: Kohort beside Apache Kafka", part.heading());
        (!figures.is_empty()).then_some(Bars { title, figures })
    }
}

impl Row {
    fn name(&self) -> String {
        let unit = self.what.unit;
        if unit.is_empty() { self.what.name.to_owned() } else { format!("{}, {unit}", self.what.name) }
    }

    fn verdict(&self) -> Option<crate::owed::Verdict> {
        Some(self.owed.as_ref()?.judge(&self.kohort, &self.kafka, self.what.unit))
    }

    fn line(&self) -> String {
        let ratio = self.kafka.under(&self.kohort).map_or(String::new(), beside::shown);
        let verdict = self.verdict().map_or("| | ".to_owned(), |verdict| {
            let met = match (verdict.owed.is_empty(), verdict.met) {
                (true, _) => "",
                (false, true) => "met",
                (false, false) => "**not met**",
            };
            format!("{} | {} | {met} ", verdict.owed, verdict.measured)
        });
        format!(
            "| {} | {} | {} | {ratio} | {verdict}|\n",
            self.name(),
            spread(&self.kohort),
            spread(&self.kafka.values)
        )
    }
}

/// What people wrote below the figures of the page before, and that it is about those.
fn kept(old: &str) -> String {
    let Some((_, kept)) = old.split_once(KEPT_FROM) else { return String::new() };
    let kept = kept.strip_prefix(OF_AN_EARLIER_RUN).unwrap_or(kept);
    format!("{KEPT_FROM}{OF_AN_EARLIER_RUN}{kept}")
}

/// The middle value; not a number when there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

/// A number for people.
pub(crate) fn shown(value: f64) -> String {
    bench::plot::grouped(value)
}

fn spread(values: &[f64]) -> String {
    let Some(Spread { median, low, high }) = Spread::of(values) else { return String::new() };
    if values.len() == 1 {
        return shown(median);
    }
    format!("{} ({}–{})", shown(median), shown(low), shown(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_no_result_says_so_on_top() {
        let mut page = Page::new(Subject::Brokers, crate::QUICK, Vec::new());
        page.warn("A quick run.".to_owned());
        let text = page.text("");
        assert!(text.starts_with("# Kohort beside Apache Kafka\n\n**A quick run.**\n\nMade by"), "{text}");
    }

    #[test]
    fn what_kafka_has_not_is_judged_and_not_drawn() {
        let mut page = Page::new(Subject::Assigner, crate::QUICK, Vec::new());
        let what = What { part: Part::Assigner, name: "a plan", unit: "ms", aim: Aim::Less };
        page.add(what, true, vec![7.0]);
        page.owe(what, Owed::AtMost(20.0));
        let text = page.text("");
        assert!(text.contains("## The assigner"), "{text}");
        assert!(text.contains("| a plan, ms | 7 |  |  | ≤ 20 ms | 7 | met |"), "{text}");
        assert!(!text.contains("assigner.svg"), "{text}");
    }

    #[test]
    fn what_people_wrote_stays_and_is_said_to_be_of_an_earlier_run() {
        let page = Page::new(Subject::Brokers, crate::QUICK, Vec::new());
        let first = page.text("# Old\n\n## Reading these figures\n\n- The ratio was 0.85.\n");
        let expected = format!("```\n{KEPT_FROM}{OF_AN_EARLIER_RUN}\n- The ratio was 0.85.\n");
        assert!(first.ends_with(&expected), "{first}");
        assert_eq!(page.text(&first), first);
    }
}
