//! One property: its name, type, default, limits and meaning.

use super::value::{Check, Kind, normalise};

/// A setting of the broker or of a topic.
#[derive(Debug, Clone, Copy)]
pub struct Property {
    /// Kafka's name for it where Kafka has one; ours begin with `kohort.`.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Its value when nobody sets it; none where Kafka shows null.
    pub default: Option<&'static str>,
    /// What its values must fulfil besides their type.
    pub check: Check,
    /// One sentence that says what it does.
    pub doc: &'static str,
    /// Whether Kohort looks at it. The others are accepted, so that a configuration made for Kafka starts,
    /// with a warning that they do nothing here.
    pub effective: bool,
    /// Whether it can be changed while the broker runs, by AlterConfigs.
    pub dynamic: bool,
}

impl Property {
    const fn new(kind: Kind, name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self { name, kind, default: Some(default), check: Check::Any, doc, effective: true, dynamic: false }
    }

    pub(super) const fn boolean(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::Boolean, name, default, doc)
    }

    pub(super) const fn int(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::Int, name, default, doc)
    }

    pub(super) const fn short(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::Short, name, default, doc)
    }

    pub(super) const fn long(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::Long, name, default, doc)
    }

    pub(super) const fn double(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::Double, name, default, doc)
    }

    pub(super) const fn string(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::String, name, default, doc)
    }

    pub(super) const fn list(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::new(Kind::List, name, default, doc)
    }

    /// Without a default: null until someone sets it.
    pub(super) const fn unset(mut self) -> Self {
        self.default = None;
        self
    }

    pub(super) const fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    pub(super) const fn at_least(self, least: i64) -> Self {
        self.check(Check::AtLeast(least))
    }

    pub(super) const fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    pub(super) const fn without_effect(mut self) -> Self {
        self.effective = false;
        self
    }

    /// Checks `value` and returns it as Kafka would write it back; the error is a sentence for people.
    pub fn normalise(&self, value: &str) -> Result<String, String> {
        normalise(self.name, self.kind, self.check, value)
    }

    /// What its values must fulfil, in words, for listings; empty if nothing.
    pub fn limits(&self) -> String {
        match self.check {
            Check::Any => String::new(),
            Check::AtLeast(least) => format!("at least {least}"),
            Check::Between(least, most) => format!("{least} to {most}"),
            Check::BetweenDouble(least, most) => format!("{least} to {most}"),
            Check::GzipLevel => "1 to 9, or -1".to_owned(),
            Check::PositiveOrUnlimited => "at least 1, or -1".to_owned(),
            Check::OneOf(texts) => texts.join(" | "),
            Check::ListOf(texts) => format!("any of {}", texts.join(", ")),
            Check::NotEmpty => "not empty".to_owned(),
            Check::ThrottledReplicas => "* or partition:broker,…".to_owned(),
            Check::FileUrl => "file:///path".to_owned(),
            Check::OrgName => "an organisation's name".to_owned(),
            Check::ProtocolMap => "NAME:PROTOCOL,…".to_owned(),
            Check::SocketAddress => "address:port".to_owned(),
            Check::SuperUsers => "User:name;User:org/name;…".to_owned(),
        }
    }
}
