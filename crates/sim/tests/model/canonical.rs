//! When two machines are the same.

use std::collections::BTreeMap;

/// What is told of past rebalances, and what is only counted.
const STORIES: [&str; 5] = ["events: ", "story: ", "usage: ", "settings: ", "homeless_events: "];

/// A machine as text, without its stories, with times relative to now and tickets by whose they are.
pub(crate) fn strip(text: &str, now: u64, tickets: &BTreeMap<u64, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Nothing else begins with one of these.
    while let Some(at) = rest.find(['T', 'e', 's', 'u', 'h']) {
        let (plain, interesting) = rest.split_at(at);
        out.push_str(plain);
        rest = interesting;
        if let Some(story) = STORIES.iter().find(|story| rest.starts_with(**story)) {
            rest = &rest[story.len()..];
            rest = &rest[value_length(rest)..];
        } else if let Some((number, after)) = number_in(rest, "Timestamp(") {
            if number == u64::MAX {
                out.push_str("never");
            } else {
                out.push_str(&(i128::from(number) - i128::from(now)).to_string());
            }
            rest = after;
        } else if let Some((number, after)) = number_in(rest, "Ticket(") {
            out.push_str(tickets.get(&number).map_or("forgotten", String::as_str));
            rest = after;
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn number_in<'a>(text: &'a str, before: &str) -> Option<(u64, &'a str)> {
    let (number, after) = text.strip_prefix(before)?.split_once(')')?;
    Some((number.parse().ok()?, after))
}

/// How long the value is with which the text begins: up to the comma or bracket that ends it.
fn value_length(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, it) in text.char_indices() {
        match it {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return at,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}
