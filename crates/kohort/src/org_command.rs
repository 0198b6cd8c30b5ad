//! `kohort org`: the organisations that share a broker, through its admin listener.

use std::collections::BTreeMap;

use anyhow::Context;
use coordination::record::OrgLimits;

use crate::admin::manage::{NewOrg, OrgShown};
use crate::admin_client::{ask, ask_to_make, query_value};
use crate::cli::org::{AskArgs, OrgCommand};
use crate::failure::{Failure, Kind};
use crate::group_command::moment::show_moment;
use crate::output::{Table, plain, show};

/// Runs `kohort org …`.
pub(crate) async fn run(command: OrgCommand) -> anyhow::Result<()> {
    match command {
        OrgCommand::Create { name, limit, ask } => {
            let org = NewOrg { name, limits: limits(&limit, &[])? };
            let answer =
                ask_to_make(&ask.admin, "POST", "/v1/orgs", &body(&org)?, "create the organisation").await?;
            done(&ask, &answer, "created")
        }
        OrgCommand::List { ask: args } => {
            let answer = ask(&args.admin, "GET", "/v1/orgs", "", "list organisations").await?;
            let orgs: Vec<OrgShown> = read(&answer)?;
            Ok(show(args.output.output, &orgs, |orgs| render_list(orgs))?)
        }
        OrgCommand::Describe { name, ask: args } => {
            let path = format!("/v1/orgs?name={}", query_value(&name));
            let answer = ask(&args.admin, "GET", &path, "", "show the organisation").await?;
            let orgs: Vec<OrgShown> = read(&answer)?;
            let org = orgs.first().context("understand the broker's answer")?;
            Ok(show(args.output.output, org, render_one)?)
        }
        OrgCommand::Limit { name, limit, unlimit, ask: args } => {
            let org = NewOrg { name, limits: limits(&limit, &unlimit)? };
            let answer =
                ask(&args.admin, "PATCH", "/v1/orgs", &body(&org)?, "limit the organisation").await?;
            done(&args, &answer, "limited")
        }
        OrgCommand::Delete { name, ask: args } => {
            let path = format!("/v1/orgs?name={}", query_value(&name));
            let answer = ask(&args.admin, "DELETE", &path, "", "delete the organisation").await?;
            done(&args, &answer, "deleted")
        }
    }
}

fn limits(set: &[(String, String)], lifted: &[String]) -> anyhow::Result<BTreeMap<String, Option<u64>>> {
    let mut limits = BTreeMap::new();
    // Which of the two is meant is anybody's guess.
    let mut take = |name: &str, limit: Option<u64>| match limits.insert(name.to_owned(), limit) {
        Some(_) => {
            Err(Failure::new(Kind::Usage, format!("{name} is named twice; say once what it shall be")))
        }
        None => Ok(()),
    };
    for name in lifted {
        take(name, None)?;
    }
    for (name, value) in set {
        let number = value.trim().parse().map_err(|_| {
            Failure::new(Kind::Usage, format!("--limit {name}={value}: the limit is not a number"))
        })?;
        take(name, Some(number))?;
    }
    Ok(limits)
}

fn body<T: serde::Serialize>(value: &T) -> anyhow::Result<String> {
    serde_json::to_string(value).context("write the request")
}

fn read<T: serde::de::DeserializeOwned>(answer: &str) -> anyhow::Result<T> {
    serde_json::from_str(answer).context("understand the broker's answer")
}

fn done(args: &AskArgs, answer: &str, outcome: &str) -> anyhow::Result<()> {
    let org: OrgShown = read(answer)?;
    Ok(show(args.output.output, &org, |org| format!("{}: {outcome} ({})\n", plain(&org.name), org.id))?)
}

fn render_list(orgs: &[OrgShown]) -> String {
    let mut table = Table::new(&["NAME", "ID", "TOPICS", "PARTITIONS", "GROUPS", "MEMBERS", "CONNECTIONS"]);
    for org in orgs {
        let used = |name: &str| shown_use(org, name);
        table.row([
            org.name.clone(),
            org.id.to_string(),
            used("max.topics"),
            used("max.partitions"),
            used("max.groups"),
            used("max.members"),
            used("max.connections"),
        ]);
    }
    table.render()
}

/// What is used, and of how much if there is a limit.
fn shown_use(org: &OrgShown, name: &str) -> String {
    let used = org.uses.get(name).copied().unwrap_or(0);
    match org.limits.get(name).flatten() {
        Some(limit) => format!("{used}/{limit}"),
        None => used.to_string(),
    }
}

fn render_one(org: &OrgShown) -> String {
    let mut text = format!("Organisation {} ({})\n", plain(&org.name), org.id);
    // The one that is always there has no day on which it was made.
    if org.created_ms > 0 {
        text.push_str(&format!("created {}\n", show_moment(org.created_ms)));
    }
    let mut table = Table::new(&["LIMIT", "USED", "AT MOST"]);
    for name in OrgLimits::NAMES {
        let used = org.uses.get(name).map_or("-".to_owned(), u64::to_string);
        let limit = org.limits.get(name).flatten().map_or("-".to_owned(), |limit| limit.to_string());
        table.row([name.to_owned(), used, limit]);
    }
    text.push_str(&table.render());
    text
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use coordination::ids::OrgId;
    use expect_test::expect;

    use super::*;
    use crate::failure::exit_code;

    fn acme() -> OrgShown {
        OrgShown {
            name: "acme".to_owned(),
            id: OrgId::from_u128(1),
            limits: OrgLimits { topics: Some(10), ..OrgLimits::default() },
            uses: BTreeMap::from([("max.topics".to_owned(), 3), ("max.groups".to_owned(), 2)]),
            created_ms: 1_700_000_000_123,
        }
    }

    #[test]
    fn an_organisation_is_shown_with_what_it_uses() {
        expect![[r#"
            Organisation acme (org_00000000000000000000000001)
            created 2023-11-14T22:13:20.123Z
            LIMIT                 USED  AT MOST
            max.topics            3     10
            max.partitions        -     -
            max.groups            2     -
            max.members           -     -
            max.connections       -     -
            max.bytes.per.second  -     -
        "#]]
        .assert_eq(&render_one(&acme()));
        expect![[r#"
            NAME  ID                              TOPICS  PARTITIONS  GROUPS  MEMBERS  CONNECTIONS
            acme  org_00000000000000000000000001  3/10    0           2       0        0
        "#]]
        .assert_eq(&render_list(&[acme()]));
    }

    #[test]
    fn limits_are_numbers() {
        let set = [("max.topics".to_owned(), "x".to_owned())];
        assert!(limits(&set, &[]).unwrap_err().to_string().contains("is not a number"));
        let set = [("max.topics".to_owned(), "3".to_owned())];
        let both = limits(&set, &["max.groups".to_owned()]).unwrap();
        assert_eq!(both["max.topics"], Some(3));
        assert_eq!(both["max.groups"], None);
    }

    #[test]
    fn a_limit_is_named_once() {
        let topics = || "max.topics".to_owned();
        let five = (topics(), "5".to_owned());
        for (set, lifted) in [
            (vec![five.clone()], vec![topics()]),
            (vec![five.clone(), five], vec![]),
            (vec![], vec![topics(), topics()]),
        ] {
            let refused = limits(&set, &lifted).unwrap_err();
            assert_eq!(refused.to_string(), "max.topics is named twice; say once what it shall be");
            assert_eq!(exit_code(&refused), ExitCode::from(2));
        }
    }
}
