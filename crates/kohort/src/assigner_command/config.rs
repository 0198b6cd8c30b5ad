//! `kohort assigner config`: the settings that would be used, and all there are.

use serde::Serialize;

use super::configuration::{self, Changed};
use super::settings::{SETTINGS, Setting};
use crate::cli::assigner::AssignerConfigCommand;
use crate::failure::{Failure, Kind};
use crate::output::{Table, show};

/// Runs `kohort assigner config …`.
pub(super) fn run(command: &AssignerConfigCommand) -> anyhow::Result<()> {
    match command {
        AssignerConfigCommand::Check { settings, output } => {
            let configuration = configuration::load(settings, std::env::vars_os())
                .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
            let set: Vec<Set> = configuration.changed.iter().map(Set::from).collect();
            Ok(show(output.output, &set, |set| render_set(set))?)
        }
        AssignerConfigCommand::List { output } => {
            let listed: Vec<Listed> = SETTINGS.iter().map(Listed::from).collect();
            Ok(show(output.output, &listed, |listed| render_listed(listed))?)
        }
    }
}

/// A setting that somebody has set.
#[derive(Serialize)]
struct Set {
    name: &'static str,
    value: String,
    source: &'static str,
    default: &'static str,
}

impl From<&Changed> for Set {
    fn from(changed: &Changed) -> Self {
        Self {
            name: changed.setting.name,
            value: changed.value.clone(),
            source: changed.layer.name(),
            default: changed.setting.default,
        }
    }
}

fn render_set(set: &[Set]) -> String {
    if set.is_empty() {
        return "The settings are good; all are at their defaults.\n".to_owned();
    }
    let mut table = Table::new(&["SETTING", "VALUE", "SOURCE", "DEFAULT"]);
    for setting in set {
        table.row([
            setting.name.to_owned(),
            setting.value.clone(),
            setting.source.to_owned(),
            dash(setting.default),
        ]);
    }
    table.render()
}

/// A setting as listings show it.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    /// The variables that set it, the stronger one first.
    variables: Vec<String>,
    default: &'static str,
    doc: &'static str,
}

impl From<&Setting> for Listed {
    fn from(setting: &Setting) -> Self {
        let mut variables = vec![setting.own_variable()];
        variables.extend(setting.variable.map(str::to_owned));
        Self { name: setting.name, variables, default: setting.default, doc: setting.doc }
    }
}

fn render_listed(listed: &[Listed]) -> String {
    let mut table = Table::new(&["SETTING", "VARIABLE", "DEFAULT", "MEANING"]);
    for setting in listed {
        // The name of the original service, where it has one, is what people know.
        let variable = setting.variables.last().cloned().unwrap_or_default();
        table.row([setting.name.to_owned(), variable, dash(setting.default), setting.doc.to_owned()]);
    }
    table.render()
}

fn dash(text: &str) -> String {
    super::status::dash(text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::configuration::Layer;
    use super::*;

    #[test]
    fn what_is_set_is_shown_with_its_source() {
        let set = |name: &str, value: &str, layer| {
            let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
            Set::from(&Changed { setting, value: value.to_owned(), layer })
        };
        expect![[r#"
            SETTING     VALUE        SOURCE       DEFAULT
            bind_port   1            environment  50051
            token_file  /run/tokens  file         -
        "#]]
        .assert_eq(&render_set(&[
            set("bind_port", "1", Layer::OwnVariable),
            set("token_file", "/run/tokens", Layer::File),
        ]));
        expect![[r#"
            The settings are good; all are at their defaults.
        "#]]
        .assert_eq(&render_set(&[]));
    }

    #[test]
    fn the_documentation_has_the_table() {
        let page = include_str!("../../../../docs/assigner.md");
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        for setting in SETTINGS {
            let variable = setting.variable.map(|name| format!("`{name}`")).unwrap_or_default();
            let row = format!(
                "| `{}` | {variable} | {} | {} |\n",
                setting.name,
                code(setting.default),
                setting.doc
            );
            assert!(page.contains(&row), "docs/assigner.md lacks the row\n{row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5);
        assert_eq!(rows.count(), SETTINGS.len(), "docs/assigner.md has rows of settings that are gone");
    }
}
