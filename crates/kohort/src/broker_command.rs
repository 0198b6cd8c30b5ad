//! `kohort broker`: the broker without Kafka listeners, and who may reach it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use rail::Key;
use serde::Serialize;
use serde_json::json;

use crate::admin::manage::GatewayShown;
use crate::admin_client::{ask, query_value};
use crate::cli::OutputArgs;
use crate::cli::broker::{BrokerArgs, BrokerCommand, BrokerRunArgs};
use crate::cli::org::AskArgs;
use crate::configuration;
use crate::data_dir;
use crate::failure::{Failure, Kind};
use crate::output::{Table, show};
use crate::rail_door;
use crate::serve::{self, Role};
use crate::wait;

/// Runs `kohort broker …`.
pub(crate) fn run(args: BrokerArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => return serve(&args.run),
        Some(BrokerCommand::Id { directory, output }) => id(&directory.data_dir, output)?,
        Some(BrokerCommand::Allow { id, ask }) => wait(allow(&id, &ask))?,
        Some(BrokerCommand::Deny { id, ask }) => wait(deny(&id, &ask))?,
        Some(BrokerCommand::List { ask }) => wait(list(&ask))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Who a broker or a gateway is.
#[derive(Serialize)]
pub(crate) struct Id {
    /// Its endpoint id.
    pub(crate) endpoint_id: String,
}

impl Id {
    /// Of whoever has this key.
    pub(crate) fn of(key: &Key) -> Self {
        Self { endpoint_id: key.id().to_string() }
    }

    /// Shows it, alone on a line for scripts.
    pub(crate) fn show(&self, output: OutputArgs) -> std::io::Result<()> {
        show(output.output, self, |id| format!("{}\n", id.endpoint_id))
    }
}

fn id(data_dir: &Path, output: OutputArgs) -> anyhow::Result<()> {
    // Whoever sets up gateways may ask before the broker's first start.
    data_dir::make(data_dir).with_context(|| format!("make the data directory {}", data_dir.display()))?;
    Ok(Id::of(&rail_door::key(data_dir)?).show(output)?)
}

fn serve(args: &BrokerRunArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let configuration = configuration::load_without_listeners(&args.settings(), std::env::vars_os())
        .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
    if configuration.settings.rail_listen().is_none() {
        let message = "where shall gateways reach the broker? Give --rail-listen ADDR:PORT, such as \
                       --rail-listen 0.0.0.0:9643; to listen for Kafka clients in the same process, run `kohort`";
        return Err(Failure::new(Kind::Usage, message).into());
    }
    serve::host(configuration, &args.logging, Role::Broker, started)
}

async fn allow(id: &str, args: &AskArgs) -> anyhow::Result<()> {
    let body = json!({ "endpoint_id": id }).to_string();
    let answer = ask(&args.admin, "POST", "/v1/gateways", &body, "let the gateway in").await?;
    done(args, &answer, "allowed")
}

async fn deny(id: &str, args: &AskArgs) -> anyhow::Result<()> {
    let path = format!("/v1/gateways?endpoint_id={}", query_value(id));
    let answer = ask(&args.admin, "DELETE", &path, "", "keep the gateway out").await?;
    done(args, &answer, "denied")
}

fn done(args: &AskArgs, answer: &str, what: &str) -> anyhow::Result<()> {
    let gateway: GatewayShown = serde_json::from_str(answer).context("understand the broker's answer")?;
    Ok(show(args.output.output, &gateway, |gateway| {
        format!("{}: {what}, node {}\n", gateway.endpoint_id, gateway.node_id)
    })?)
}

async fn list(args: &AskArgs) -> anyhow::Result<()> {
    let answer = ask(&args.admin, "GET", "/v1/gateways", "", "list gateways").await?;
    let gateways: Vec<GatewayShown> =
        serde_json::from_str(&answer).context("understand the broker's answer")?;
    Ok(show(args.output.output, &gateways, |gateways| render(gateways))?)
}

fn render(gateways: &[GatewayShown]) -> String {
    if gateways.is_empty() {
        return "no gateways; `kohort broker allow ID` lets one in\n".to_owned();
    }
    let yes_or_no = |truth: bool| if truth { "yes" } else { "no" }.to_owned();
    let mut table = Table::new(&["ID", "NODE", "ALLOWED", "LIVE", "LISTENERS", "SOFTWARE"]);
    for gateway in gateways {
        let (listeners, software) = match &gateway.connected {
            Some(connected) if connected.advertises.is_empty() => {
                ("-".to_owned(), connected.software.clone())
            }
            Some(connected) => (connected.advertises.join(","), connected.software.clone()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        table.row([
            gateway.endpoint_id.clone(),
            gateway.node_id.to_string(),
            yes_or_no(gateway.is_allowed),
            yes_or_no(gateway.connected.is_some()),
            listeners,
            software,
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::admin::manage::Connected;

    #[test]
    fn a_list_says_who_may_come_in_and_who_is_there() {
        let gateway = |id: &str, node_id, is_allowed, connected| GatewayShown {
            endpoint_id: id.to_owned(),
            node_id,
            is_allowed,
            connected,
        };
        let live = |advertises: &[&str]| Connected {
            address: None,
            software: "kohort/1".to_owned(),
            advertises: advertises.iter().map(ToString::to_string).collect(),
        };
        expect![[r#"
            ID  NODE  ALLOWED  LIVE  LISTENERS           SOFTWARE
            aa  2     yes      yes   PLAINTEXT://a:9092  kohort/1
            bb  3     yes      yes   -                   kohort/1
            cc  4     no       no    -                   -
        "#]]
        .assert_eq(&render(&[
            gateway("aa", 2, true, Some(live(&["PLAINTEXT://a:9092"]))),
            gateway("bb", 3, true, Some(live(&[]))),
            gateway("cc", 4, false, None),
        ]));
        assert!(render(&[]).contains("kohort broker allow"));
    }
}
