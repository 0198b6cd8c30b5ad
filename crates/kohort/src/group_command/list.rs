//! `kohort group list`.

use client::GroupListing;
use serde::Serialize;

use super::cell;
use crate::cli::ClientArgs;
use crate::dial::{connect, failure};
use crate::failure::{Failure, Kind};
use crate::output::{Table, show};

/// The states that a group can be in.
const STATES: [&str; 7] =
    ["Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"];

/// The types of groups of consumers, which is what Kafka's tool knows too; others have tools of their own.
const TYPES: [&str; 2] = [CLASSIC, "Consumer"];

/// The type that groups of brokers have that are too old to tell it.
const CLASSIC: &str = "Classic";

/// A line of the list.
#[derive(Serialize)]
struct Listed {
    group: String,
    /// None if the broker is too old to tell.
    r#type: Option<String>,
    state: Option<String>,
}

/// Lists groups; empty filters let all pass.
pub(super) async fn run(states: &[String], types: &[String], args: &ClientArgs) -> anyhow::Result<()> {
    let states = known(states, &STATES, "state")?;
    let types = known(types, &TYPES, "type")?;
    let mut client = connect(args).await?;
    let groups = client.list_groups(&states, &types).await.map_err(failure)?;
    let listed: Vec<Listed> = groups
        .into_iter()
        .filter(is_of_consumers)
        .map(|listing| Listed {
            r#type: listing.kind.map(|kind| spelled(&kind, &TYPES).unwrap_or(kind)),
            state: listing.state,
            group: listing.group,
        })
        // Brokers that are too old to filter by type list everything.
        .filter(|listed| passes(&types, listed.r#type.as_deref().unwrap_or(CLASSIC)))
        .collect();
    Ok(show(args.output.output, &listed, |listed| render(listed))?)
}

/// Whether the members are consumers, or it has offsets only; Connect and others use groups too.
pub(super) fn is_of_consumers(listing: &GroupListing) -> bool {
    matches!(listing.protocol_type.as_str(), "" | "consumer")
}

fn passes(filter: &[String], value: &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| wanted == value)
}

/// The names as Kafka spells them.
fn known(given: &[String], names: &[&str], what: &str) -> anyhow::Result<Vec<String>> {
    let one = |name: &String| {
        spelled(name, names).ok_or_else(|| {
            let message = format!("unknown {what} `{name}`; there are {}", names.join(", "));
            Failure::new(Kind::Usage, message).into()
        })
    };
    given.iter().map(one).collect()
}

fn spelled(name: &str, names: &[&str]) -> Option<String> {
    names.iter().find(|known| known.eq_ignore_ascii_case(name.trim())).map(|known| (*known).to_owned())
}

fn render(listed: &[Listed]) -> String {
    let mut table = Table::new(&["GROUP", "TYPE", "STATE"]);
    let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    for group in listed {
        table.row([cell(&group.group), told(&group.r#type), told(&group.state)]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_list_is_a_table() {
        let group = |name: &str, r#type: Option<&str>| Listed {
            group: name.to_owned(),
            r#type: r#type.map(str::to_owned),
            state: Some("Empty".to_owned()),
        };
        expect![[r#"
            GROUP    TYPE     STATE
            billing  Classic  Empty
            old      -        Empty
            ""       Classic  Empty
        "#]]
        .assert_eq(&render(&[
            group("billing", Some("Classic")),
            group("old", None),
            group("", Some("Classic")),
        ]));
    }

    #[test]
    fn names_of_states_are_taken_in_any_case_and_unknown_ones_refused() {
        let given = ["stable".to_owned(), " EMPTY".to_owned()];
        assert_eq!(known(&given, &STATES, "state").unwrap(), ["Stable", "Empty"]);
        let refusal = known(&["share".to_owned()], &TYPES, "type").unwrap_err();
        assert_eq!(refusal.to_string(), "unknown type `share`; there are Classic, Consumer");
    }
}
