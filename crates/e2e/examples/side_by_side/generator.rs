//! Our load generator, `kohort bench`, as a program beside the brokers.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Scale;

/// Runs the generator and remembers how, so that others can.
pub(crate) struct Generator {
    program: PathBuf,
    scale: Scale,
    /// Where drawings go.
    drawings: PathBuf,
    commands: Vec<String>,
}

/// The servers of a run.
#[derive(Clone, Debug)]
pub(crate) enum On {
    /// Kohort and Kafka in turn, by their addresses.
    Both { kohort: String, kafka: String },
    /// Kohort as one process and behind a gateway in turn, by their addresses.
    Apart { whole: String, apart: String },
    /// One of them.
    One { name: &'static str, address: String },
}

/// Something that is somewhere else for everybody, and what it is called on the page.
pub(crate) type Name = (String, &'static str);

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Figures(Value);

/// What a sweep gave: for each value of the number, a run.
#[derive(Debug)]
pub(crate) struct Points(pub(crate) Vec<(u64, Figures)>);

impl Generator {
    /// The generator is the broker's own binary.
    pub(crate) fn find(scale: Scale, drawings: PathBuf) -> Result<Self> {
        // What an earlier run has left must not pass for this one's.
        let _ = fs::remove_dir_all(&drawings);
        fs::create_dir_all(&drawings).with_context(|| format!("create {}", drawings.display()))?;
        Ok(Self { program: e2e::kohort::binary()?, scale, drawings, commands: Vec::new() })
    }

    /// Every command since this was last asked, with names in place of addresses.
    pub(crate) fn take_commands(&mut self) -> Vec<String> {
        std::mem::take(&mut self.commands)
    }

    /// Measures a scenario.
    pub(crate) fn run(&mut self, scenario: &[&str], on: &On) -> Result<Figures> {
        self.run_naming(scenario, &[], on)
    }

    /// Measures a scenario in many short turns, so that both meet the machine at the same speed. Only for what leaves
    /// nothing to be done afterwards: that would fall into the turn of the other.
    pub(crate) fn run_in_turns(&mut self, scenario: &[&str], on: &On) -> Result<Figures> {
        let time = ["--duration", self.scale.turn, "--warmup", self.scale.turn_warmup];
        self.measure(&[scenario, &time].concat(), &[], on, self.scale.turns).map(Figures)
    }

    /// Measures a scenario. Where others have places of their own, `names` has the place here and what to call it.
    pub(crate) fn run_naming(&mut self, scenario: &[&str], names: &[Name], on: &On) -> Result<Figures> {
        let time = ["--duration", self.scale.duration, "--warmup", self.scale.warmup];
        self.measure(&[scenario, &time].concat(), names, on, self.scale.repetitions).map(Figures)
    }

    /// Brings a load that nobody asks about.
    pub(crate) fn warm(&mut self, scenario: &[&str], on: &On) -> Result<()> {
        let known = self.commands.len();
        let time = ["--duration", self.scale.duration, "--warmup", self.scale.warmup];
        self.measure(&[scenario, &time].concat(), &[], on, 1)?;
        self.commands.truncate(known);
        Ok(())
    }

    /// Measures a scenario on a server that serves one run.
    pub(crate) fn once(&mut self, scenario: &[&str], names: &[Name], on: &On) -> Result<Figures> {
        self.measure(scenario, names, on, 1).map(Figures)
    }

    /// Measures how a scenario grows and draws it.
    pub(crate) fn sweep(&mut self, scenario: &[&str], on: &On, drawing: Option<&str>) -> Result<Points> {
        let time = ["--duration", self.scale.point, "--warmup", self.scale.point_warmup];
        let file = drawing.map(|name| self.drawings.join(name).display().to_string());
        let report = file.as_ref().map_or(Vec::new(), |file| vec!["--report", file]);
        // Others find the drawing where they are.
        let names = [(format!("{}/", self.drawings.display()), "")];
        let value = self.measure(&[scenario, &time, &report].concat(), &names, on, self.scale.repetitions)?;
        let runs = value["runs"].as_array().context("find the runs of a sweep")?;
        let point = |run: &Value| Some((run["value"].as_u64()?, Figures(run["run"].clone())));
        runs.iter().map(point).collect::<Option<_>>().map(Points).context("read the runs of a sweep")
    }

    fn measure(&mut self, arguments: &[&str], names: &[Name], on: &On, repetitions: usize) -> Result<Value> {
        let repetitions = repetitions.to_string();
        let (targets, placeholders) = match on {
            On::Both { kohort, kafka } => (
                ["--compare".to_owned(), format!("kohort={kohort},kafka={kafka}")],
                "--compare kohort=KOHORT,kafka=KAFKA".to_owned(),
            ),
            On::Apart { whole, apart } => (
                ["--compare".to_owned(), format!("kohort={whole},gateway={apart}")],
                "--compare kohort=KOHORT,gateway=GATEWAY".to_owned(),
            ),
            On::One { name, address } => {
                (["--bootstrap".to_owned(), address.clone()], format!("--bootstrap {}", name.to_uppercase()))
            }
        };
        let shown: Vec<String> = arguments.iter().map(|word| public(word, names)).collect();
        let line = format!("kohort bench {} {placeholders} --repetitions {repetitions}", shown.join(" "));
        println!("-- {line}");
        if !self.commands.contains(&line) {
            self.commands.push(line);
        }
        let output = Command::new(&self.program)
            .arg("bench")
            .args(arguments)
            .args(targets)
            .args(["--repetitions", &repetitions, "-o", "json"])
            // Every KOHORT_ variable is a setting to a broker, and this one is none.
            .env_remove("KOHORT_BIN")
            .stderr(Stdio::inherit())
            .output()
            .context("run the load generator")?;
        ensure!(output.status.success(), "kohort bench {} failed", arguments.join(" "));
        serde_json::from_slice(&output.stdout).context("read the load generator's figures")
    }
}

/// A word of a command as somebody else would type it.
fn public(word: &str, names: &[Name]) -> String {
    let word = names.iter().fold(word.to_owned(), |word, (here, name)| word.replace(here, name));
    if word.contains(' ') { format!("\"{word}\"") } else { word }
}

impl Figures {
    /// All repetitions of one figure of one target.
    pub(crate) fn values(&self, target: &str, name: &str) -> Result<Vec<f64>> {
        let find = |list: &Value, name: &str| -> Option<Value> {
            list.as_array()?.iter().find(|entry| entry["name"] == name).cloned()
        };
        let figure = find(&self.0["targets"], target).and_then(|target| find(&target["figures"], name));
        let figure = figure.with_context(|| format!("find {name} of {target}"))?;
        Ok(figure["values"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
    }

    /// What the generator says against trusting its own figures, by target.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for target in self.0["targets"].as_array().into_iter().flatten() {
            let name = target["name"].as_str().unwrap_or_default();
            let texts = target["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
            notes.extend(texts.map(|text| format!("{name}, {text}")));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_others_can_type_it() {
        let names = [("/tmp/.tmpX/data".to_owned(), "DATA"), ("127.0.0.1:4711".to_owned(), "KOHORT")];
        let command = "'kohort' serve --listen 127.0.0.1:4711 --data-dir '/tmp/.tmpX/data' --set a=1";
        assert_eq!(public(command, &names), "\"'kohort' serve --listen KOHORT --data-dir 'DATA' --set a=1\"");
        assert_eq!(public("--mebibytes", &names), "--mebibytes");
    }
}
