//! `kohort config`: the settings that would be used, and all there are.

use std::collections::BTreeSet;

use coordination::settings::{BROKER_PROPERTIES, LISTENER_PREFIX, Property, Settings, TOPIC_PROPERTIES};
use serde::Serialize;

use crate::cli::{ConfigCommand, Format, SettingsArgs};
use crate::configuration::{self, Problems};
use crate::failure::{Failure, Kind};
use crate::listeners;
use crate::output::{Table, show};

/// Runs `kohort config …`.
pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Check { settings, output } => check(settings, output.output),
        ConfigCommand::List { topic, effective, output } => list(*topic, *effective, output.output),
    }
}

/// A setting that is not at its default.
#[derive(Serialize)]
struct Changed {
    name: String,
    value: String,
    source: &'static str,
    default: Option<String>,
    effective: bool,
}

fn check(args: &SettingsArgs, format: Format) -> anyhow::Result<()> {
    let configuration = configuration::load(args, std::env::vars_os())
        .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
    let problems = listeners::problems(&configuration.settings);
    if !problems.is_empty() {
        return Err(Failure::new(Kind::Usage, Problems(problems).to_string()).into());
    }
    warn(&listeners::warnings(&configuration.settings));
    show(format, &changed(&configuration.settings), |changed| render_changed(changed))?;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "warnings of a command go to standard error")]
fn warn(warnings: &BTreeSet<String>) {
    for warning in warnings {
        eprintln!("kohort: warning: {warning}");
    }
}

fn changed(settings: &Settings) -> Vec<Changed> {
    let own = settings.changed_of_listeners().map(|(name, layer, value)| Changed {
        // Without it, the listener would do what all others do.
        default: of_all_listeners(&name).and_then(|general| settings.value(general)),
        name,
        value: value.to_owned(),
        source: layer.name(),
        effective: true,
    });
    settings
        .changed()
        .map(|(property, layer, value)| Changed {
            name: property.name.to_owned(),
            value: value.to_owned(),
            source: layer.name(),
            default: property.default.map(str::to_owned),
            effective: property.effective,
        })
        .chain(own)
        .collect()
}

/// The property that `listener.name.<name>.<property>` is about.
fn of_all_listeners(name: &str) -> Option<&str> {
    name.strip_prefix(LISTENER_PREFIX)?.split_once('.').map(|(_, property)| property)
}

fn render_changed(changed: &[Changed]) -> String {
    if changed.is_empty() {
        return "The settings are good; all are at their defaults.\n".to_owned();
    }
    let mut table = Table::new(&["PROPERTY", "VALUE", "SOURCE", "DEFAULT", "NOTE"]);
    for setting in changed {
        table.row([
            setting.name.clone(),
            setting.value.clone(),
            setting.source.to_owned(),
            setting.default.clone().unwrap_or_else(|| "null".to_owned()),
            if setting.effective { String::new() } else { "has no effect in Kohort".to_owned() },
        ]);
    }
    table.render()
}

/// A property as listings show it.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    r#type: &'static str,
    default: Option<&'static str>,
    limits: String,
    dynamic: bool,
    effective: bool,
    doc: &'static str,
}

impl From<&Property> for Listed {
    fn from(property: &Property) -> Self {
        Self {
            name: property.name,
            r#type: property.kind.name(),
            default: property.default,
            limits: property.limits(),
            dynamic: property.dynamic,
            effective: property.effective,
            doc: property.doc,
        }
    }
}

fn list(topic: bool, effective: bool, format: Format) -> anyhow::Result<()> {
    let all: Vec<Listed> = if topic {
        TOPIC_PROPERTIES.iter().map(|topic| Listed::from(&topic.property)).collect()
    } else {
        BROKER_PROPERTIES.iter().map(Listed::from).collect()
    };
    let listed: Vec<Listed> = all.into_iter().filter(|property| property.effective || !effective).collect();
    show(format, &listed, |listed| render_listed(listed))?;
    Ok(())
}

fn render_listed(listed: &[Listed]) -> String {
    let mut table = Table::new(&["PROPERTY", "TYPE", "DEFAULT", "VALUES", "MEANING"]);
    for property in listed {
        let note = if property.effective { "" } else { " (no effect in Kohort)" };
        table.row([
            property.name.to_owned(),
            property.r#type.to_owned(),
            property.default.unwrap_or("null").to_owned(),
            property.limits.clone(),
            format!("{}{note}", property.doc),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use coordination::settings::Layer;
    use expect_test::expect;

    use super::*;

    #[test]
    fn changed_settings_are_shown_with_their_source() {
        let mut settings = Settings::default();
        settings.set(Layer::File, "num.partitions", "3").unwrap();
        settings.set(Layer::Flags, "num.io.threads", "2").unwrap();
        settings.set(Layer::File, "ssl.client.auth", "required").unwrap();
        settings.set(Layer::File, "listener.name.inside.ssl.client.auth", "none").unwrap();
        expect![[r#"
            PROPERTY                              VALUE     SOURCE  DEFAULT   NOTE
            num.io.threads                        2         flag    8         has no effect in Kohort
            num.partitions                        3         file    1
            ssl.client.auth                       required  file    none
            listener.name.inside.ssl.client.auth  none      file    required
        "#]]
        .assert_eq(&render_changed(&changed(&settings)));
    }

    #[test]
    fn settings_at_their_defaults_are_good() {
        expect![[r#"
            The settings are good; all are at their defaults.
        "#]]
        .assert_eq(&render_changed(&[]));
    }

    #[test]
    fn listings_show_type_default_limits_and_meaning() {
        let listed: Vec<Listed> = BROKER_PROPERTIES
            .iter()
            .filter(|property| property.name.starts_with("num.p"))
            .map(Listed::from)
            .collect();
        expect![[r#"
            PROPERTY        TYPE  DEFAULT  VALUES      MEANING
            num.partitions  int   1        at least 1  Partitions of topics created without a number.
        "#]]
        .assert_eq(&render_listed(&listed));
    }
}
