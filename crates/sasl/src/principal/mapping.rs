//! The rules of `ssl.principal.mapping.rules`, as Kafka's `SslPrincipalMapper` reads and applies them.

use regex::{Captures, Regex, RegexBuilder};

use crate::limits::MAX_MAPPING_RULES;

/// Rules that make the name of a user from the subject of a certificate. The first that fits is used.
///
/// A rule is `DEFAULT`, which takes the subject as it is, or `RULE:pattern/replacement/`, with an `L` or `U` behind it to
/// write the name in small or capital letters. The pattern must fit the whole subject. A slash in either part is escaped
/// by a backslash.
///
/// Patterns are those of the `regex` crate. Almost all that is written for Java means the same there; what it does not
/// have (looking around, references within the pattern) is refused when the rules are read. `\w`, `\d` and `\s` mean
/// those characters of all scripts, as with Java's `(?U)`.
#[derive(Clone, Debug)]
pub struct MappingRules(Vec<Rule>);

#[derive(Clone, Debug)]
enum Rule {
    Default,
    Replace { whole: Regex, pattern: Regex, replacement: Vec<Piece>, letters: Letters },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    AsTheyAre,
    Small,
    Capital,
}

/// A part of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(char),
    Group(usize),
}

/// The subject is the name.
impl Default for MappingRules {
    fn default() -> Self {
        Self(vec![Rule::Default])
    }
}

impl MappingRules {
    /// Reads rules, which commas separate. Replacements that could never be carried out are refused here, not when a
    /// certificate comes, as in Kafka.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        if text.len() > MAX_MAPPING_RULES {
            return Err(RulesError::TooLong);
        }
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (rule, behind) = match rest.strip_prefix("RULE:") {
                Some(parts) => {
                    let (rule, behind) = read_rule(parts).ok_or_else(|| RulesError::not_a_rule(rest))?;
                    (Some(rule?), behind)
                }
                None => {
                    let end = rest.find(',').unwrap_or(rest.len());
                    let (word, behind) = rest.split_at(end);
                    match word.trim_end() {
                        "DEFAULT" => (Some(Rule::Default), behind),
                        "" => (None, behind),
                        _ => return Err(RulesError::not_a_rule(word)),
                    }
                }
            };
            rules.extend(rule);
            let behind = behind.trim_start();
            rest = match behind.strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if behind.is_empty() => behind,
                None => return Err(RulesError::not_a_rule(rest)),
            };
        }
        Ok(Self(rules))
    }

    /// The name for a subject; `None` where no rule fits it, and whoever shows that certificate is not let in.
    pub fn name(&self, subject: &str) -> Option<String> {
        self.0.iter().find_map(|rule| rule.apply(subject))
    }
}

/// A rule behind `RULE:` and what is behind it; `None` where it lacks a part.
fn read_rule(text: &str) -> Option<(Result<Rule, RulesError>, &str)> {
    let (pattern, text) = up_to_slash(text)?;
    let (replacement, text) = up_to_slash(text)?;
    let (letters, behind) = match text.as_bytes().first() {
        Some(b'L') => (Letters::Small, &text[1..]),
        Some(b'U') => (Letters::Capital, &text[1..]),
        _ => (Letters::AsTheyAre, text),
    };
    Some((Rule::new(pattern, replacement, letters), behind))
}

/// What is before and what is behind the first slash that no backslash escapes.
fn up_to_slash(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'/' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

impl Rule {
    fn new(pattern: &str, replacement: &str, letters: Letters) -> Result<Self, RulesError> {
        // A dot in Java is neither of the two characters that end a line.
        let compiled =
            |pattern: &str| RegexBuilder::new(pattern).crlf(true).build().map_err(RulesError::Pattern);
        let pattern = compiled(pattern)?;
        let whole = compiled(&format!(r"\A(?:{pattern})\z"))?;
        let replacement = read_replacement(replacement, &pattern)
            .ok_or_else(|| RulesError::Replacement(replacement.to_owned()))?;
        Ok(Self::Replace { whole, pattern, replacement, letters })
    }

    fn apply(&self, subject: &str) -> Option<String> {
        let Self::Replace { whole, pattern, replacement, letters } = self else {
            return Some(subject.to_owned());
        };
        if !whole.is_match(subject) {
            return None;
        }
        let name = replaced(subject, pattern, replacement);
        Some(match letters {
            Letters::AsTheyAre => name,
            Letters::Small => name.to_lowercase(),
            Letters::Capital => name.to_uppercase(),
        })
    }
}

/// Replaces each place that fits, one after the other as Java does: it also looks for nothing at the very end of what
/// it just replaced, which makes two of `.*`.
fn replaced(subject: &str, pattern: &Regex, replacement: &[Piece]) -> String {
    let mut name = String::new();
    let (mut copied, mut from) = (0, 0);
    while let Some(captures) = pattern.captures_at(subject, from) {
        let Some(place) = captures.get(0) else { break };
        name.push_str(&subject[copied..place.start()]);
        append(&mut name, &captures, replacement);
        copied = place.end();
        from = place.end();
        if place.is_empty() {
            let Some(next) = subject[from..].chars().next() else { break };
            from += next.len_utf8();
        }
    }
    name.push_str(&subject[copied..]);
    name
}

fn append(name: &mut String, captures: &Captures<'_>, replacement: &[Piece]) {
    for piece in replacement {
        match piece {
            Piece::Literal(character) => name.push(*character),
            Piece::Group(group) => name.push_str(captures.get(*group).map_or("", |found| found.as_str())),
        }
    }
}

/// Reads `$1`, `${name}` and escapes. As in Kafka a number above those of the groups is no reference but text, unless
/// there are no groups at all. `None` where a reference leads nowhere.
fn read_replacement(text: &str, pattern: &Regex) -> Option<Vec<Piece>> {
    let groups = pattern.captures_len() - 1;
    let mut pieces = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => pieces.push(Piece::Literal(characters.next()?)),
            '$' if characters.next_if_eq(&'{').is_some() => {
                let mut name = String::new();
                while characters.peek()? != &'}' {
                    name.extend(characters.next());
                }
                characters.next();
                pieces.push(Piece::Group(pattern.capture_names().position(|known| known == Some(&name))?));
            }
            '$' => {
                let digit =
                    |character: char| character.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
                let mut group = digit(*characters.peek()?)?;
                if group > groups {
                    if groups == 0 {
                        return None;
                    }
                    pieces.push(Piece::Literal('$'));
                    continue;
                }
                characters.next();
                // As many digits as make a group that exists.
                while let Some(longer) =
                    characters.peek().and_then(|next| digit(*next)).map(|next| group * 10 + next)
                    && longer <= groups
                {
                    group = longer;
                    characters.next();
                }
                pieces.push(Piece::Group(group));
            }
            _ => pieces.push(Piece::Literal(character)),
        }
    }
    Some(pieces)
}

/// Why a text gives no rules.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RulesError {
    /// Longer than any that is real.
    #[error("the rules are longer than {MAX_MAPPING_RULES} bytes")]
    TooLong,
    /// Neither `DEFAULT` nor `RULE:pattern/replacement/` with an `L` or `U`.
    #[error("{0:?} is not a rule; expected DEFAULT or RULE:pattern/replacement/[LU]")]
    NotARule(String),
    /// The pattern is not one.
    #[error("the pattern of a rule cannot be read: {0}")]
    Pattern(regex::Error),
    /// The replacement refers to a group that its pattern does not have.
    #[error("the replacement {0:?} refers to a group that its pattern does not have")]
    Replacement(String),
}

impl RulesError {
    fn not_a_rule(text: &str) -> Self {
        Self::NotARule(text.chars().take(80).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUBJECT: &str = "CN=Duke,OU=ServiceUsers,O=Org,C=US";

    fn name(rules: &str) -> Result<Option<String>, RulesError> {
        MappingRules::parse(rules).map(|rules| rules.name(SUBJECT))
    }

    /// What Kafka 4.3 makes of the same rules and the same subject.
    #[test]
    fn names_are_those_that_kafka_makes() {
        for (rules, expected) in [
            ("DEFAULT", SUBJECT),
            (" DEFAULT , DEFAULT", SUBJECT),
            (",,DEFAULT", SUBJECT),
            ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
            ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
            ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U, DEFAULT", "DUKE"),
            ("RULE:.*/x/", "xx"),
            ("RULE:.*/x/,DEFAULT", "xx"),
            ("RULE:CN=x/y/,DEFAULT", SUBJECT),
            ("RULE:^CN=(.*?),.*$/$1@$4/", "Duke@$4"),
            ("RULE:^CN=(.*?),.*$/$12/", "Duke2"),
            ("RULE:^CN=(.*?),.*$/$0/", SUBJECT),
            ("RULE:^CN=(.*?),.*$/$01/", "Duke"),
            (r"RULE:^CN=(.*?),.*$/a\/b$1/", "a/bDuke"),
            (r"RULE:^CN=(.*?),.*$/\$1/", "$1"),
            (r"RULE:CN=.*/a\b/", "ab"),
            ("RULE:CN=Duke.*//", ""),
            ("RULE:CN=(Duke),.*/$1/L,RULE:.*/z/", "duke"),
            ("RULE:(CN|OU)=(.*?),.*/$1-$2/", "CN-Duke"),
            ("RULE:CN=(?<n>.*?),.*/${n}!/", "Duke!"),
            ("RULE:CN=Duke,(.*)/$1/,", "OU=ServiceUsers,O=Org,C=US"),
            ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "duke"),
            ("RULE:^[^,]+,(.*)$/$1/ , RULE:x/y/ ,DEFAULT", "OU=ServiceUsers,O=Org,C=US"),
            ("RULE:CN=(a|(b)|Duke),.*/<$2>/", "<>"),
            (r"RULE:CN=\w+,OU=(\w+),.*/$1/", "ServiceUsers"),
            ("RULE:^CN=(.*?),.*$/$1 /L", "duke "),
            ("RULE:^CN=(.*?),.*$/ $1/", " Duke"),
            ("RULE:.*/é$0/U", "ÉCN=DUKE,OU=SERVICEUSERS,O=ORG,C=USÉ"),
            ("RULE:CN=(D)(u)(k)(e),.*/$4$3$2$1$5/", "ekuD$5"),
            ("RULE:CN=Duke.*/a,b/", "a,b"),
            ("RULE:CN=(.*),OU=(.*),O=(.*),C=(.*)/$1,$2/L,DEFAULT", "duke,serviceusers"),
        ] {
            assert_eq!(name(rules), Ok(Some(expected.to_owned())), "{rules}");
        }
    }

    #[test]
    fn where_no_rule_fits_there_is_no_name() {
        for rules in ["", " ", ",", "RULE:CN=x/y/", "RULE:CN=Duke/y/", "RULE:/x/"] {
            assert_eq!(name(rules), Ok(None), "{rules}");
        }
    }

    #[test]
    fn the_default_is_the_subject_itself() {
        assert_eq!(MappingRules::default().name(SUBJECT).as_deref(), Some(SUBJECT));
    }

    #[test]
    fn what_kafka_does_not_take_for_rules_is_refused() {
        for rules in [
            "default",
            "DEFAULTS",
            "foo",
            "DEFAULT RULE:a/b/",
            "RULE:a/b/ DEFAULT",
            "RULE:",
            "RULE:^CN=(.*?),.*$",
            "RULE:^CN=(.*?),.*$/$1",
            "RULE:^CN=(.*?),.*$/$1/LU",
            "RULE:^CN=(.*?),.*$/$1/Lfoo",
            "RULE:^CN=(.*?),.*$/$1/X",
            r"RULE:CN=.*/a\/",
            "RULE:CN=(Du[,/]?ke),.*/$1/",
        ] {
            // The last one is cut within its brackets, so that it is no pattern either.
            let refused = name(rules);
            assert!(matches!(refused, Err(RulesError::NotARule(_) | RulesError::Pattern(_))), "{rules}");
        }
        assert!(matches!(name("RULE:[/x/"), Err(RulesError::Pattern(_))));
        assert!(matches!(name("RULE:(?=C).*/x/"), Err(RulesError::Pattern(_))));
        assert!(matches!(name(r"RULE:(.)\1/x/"), Err(RulesError::Pattern(_))));
        assert_eq!(name(&" ".repeat(MAX_MAPPING_RULES + 1)), Err(RulesError::TooLong));
    }

    #[test]
    fn replacements_that_lead_nowhere_are_refused() {
        for rules in
            ["RULE:CN=.*/$/", "RULE:CN=.*/a$b/", "RULE:CN=.*/$1/", "RULE:CN=(.*)/${x}/", "RULE:CN=(.*)/${x/"]
        {
            assert!(matches!(name(rules), Err(RulesError::Replacement(_))), "{rules}");
        }
        // Where Kafka lets the number run over.
        assert_eq!(name("RULE:CN=(Duke).*/$99999999999/"), Ok(Some("$99999999999".to_owned())));
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let rules = MappingRules::parse("RULE:(a*)*b/x/").unwrap();
        assert_eq!(rules.name(&"a".repeat(10_000)), None);
        assert!(matches!(
            MappingRules::parse("RULE:(((a{100}){100}){100}){100}/x/"),
            Err(RulesError::Pattern(_))
        ));
    }

    proptest! {
        #[test]
        fn no_text_is_the_end(text: String, subject: String) {
            if let Ok(rules) = MappingRules::parse(&text) {
                let _ = rules.name(&subject);
            }
        }

        /// Rules that are almost right.
        #[test]
        fn no_crooked_rule_is_the_end(
            parts in proptest::collection::vec(
                prop::sample::select(
                    vec!["RULE:", "/", "\\", "$", "{", "}", "1", "(", ")", ".*", "é", ",", "L", "DEFAULT", " "],
                ),
                0..16,
            ),
            subject in "[a-zé,]{0,12}",
        ) {
            if let Ok(rules) = MappingRules::parse(&parts.concat()) {
                let _ = rules.name(&subject);
            }
        }
    }
}
