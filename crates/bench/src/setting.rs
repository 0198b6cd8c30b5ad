//! What tells a run from others of the same scenario.

use std::fmt::{Display, Write as _};

use serde_json::{Map, Value};

/// A flag with its value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// As it is typed, without the hyphens in front.
    pub(crate) flag: &'static str,
    /// What headings call it; those that have none are for programs alone.
    words: Option<&'static str>,
    value: String,
}

impl Setting {
    /// One that headings call by its flag.
    pub(crate) fn new(flag: &'static str, value: impl Display) -> Self {
        Self { flag, words: Some(flag), value: value.to_string() }
    }

    /// One that headings call something else.
    pub(crate) fn called(flag: &'static str, words: &'static str, value: impl Display) -> Self {
        Self { words: Some(words), ..Self::new(flag, value) }
    }

    /// One that headings leave out.
    pub(crate) fn unsaid(flag: &'static str, value: impl Display) -> Self {
        Self { words: None, ..Self::new(flag, value) }
    }
}

/// What was measured and how, in a line.
pub(crate) fn sentence<'a>(what: &str, settings: impl Iterator<Item = &'a Setting>) -> String {
    let mut text = what.to_owned();
    let said = settings.filter_map(|setting| Some((setting.words?, &setting.value)));
    for (position, (words, value)) in said.enumerate() {
        let _ = write!(text, "{}{words} {value}", if position == 0 { ": " } else { ", " });
    }
    text
}

/// For programs, by flag.
pub(crate) fn json(settings: &[Setting]) -> Map<String, Value> {
    let entry = |setting: &Setting| (setting.flag.replace('-', "_"), Value::from(setting.value.as_str()));
    settings.iter().map(entry).collect()
}

/// Several numbers as one types them.
pub(crate) fn listed(values: &[usize]) -> String {
    values.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
