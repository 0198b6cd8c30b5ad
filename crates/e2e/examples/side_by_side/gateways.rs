//! Gateways apart from the broker beside one process, and TLS beside none.

use std::fs;

use anyhow::{Context, Result};
use bench::plot::Aim;
use e2e::deployment::{self, Deployment};
use e2e::kohort::{Kohort, Options};

use crate::Scale;
use crate::beside::Beside;
use crate::certificates::Authority;
use crate::generator::{Generator, On};
use crate::load::Connection;
use crate::owed::Owed;
use crate::page::{Page, Part, What};
use crate::tools::Tools;

/// A scenario and what is read of it.
struct Row {
    scenario: &'static [&'static str],
    /// What the generator calls it.
    figure: &'static str,
    what: What,
    /// The share of one process's figure that is owed.
    owed: Option<f64>,
}

const HEARTBEAT: &[&str] = &["heartbeat", "--groups", "64", "--members", "64"];
const COMMIT: &[&str] = &["commit", "--groups", "64"];
const PRODUCE: &[&str] = &["produce", "--pipeline", "5"];
const CONSUME: &[&str] = &["consume"];

const ROWS: [Row; 6] = [
    row(
        HEARTBEAT,
        "heartbeats per second, 64 in flight",
        "heartbeats, 64 groups, 64 × 64 in flight",
        Some(0.7),
    ),
    row(HEARTBEAT, "heartbeats per second, 1 in flight", "heartbeats, 64 groups, one in flight", None),
    row(COMMIT, "commits per second, 64 in flight", "commits, 64 groups, 64 × 64 in flight", Some(0.7)),
    row(COMMIT, "commits per second, 1 in flight", "commits, 64 groups, one in flight", None),
    row(
        PRODUCE,
        "records per second, 5 in flight",
        "records produced, 4 × 5 batches of 16 KiB in flight",
        Some(0.7),
    ),
    row(
        CONSUME,
        "records per second, 1 in flight",
        "records consumed again and again, 4 connections",
        Some(0.7),
    ),
];

const TLS: What = rate("records produced by Kafka's tool over TLS");

/// The share of the rate without TLS that is owed.
const OWED_OVER_TLS: f64 = 0.5;

const fn row(
    scenario: &'static [&'static str],
    figure: &'static str,
    name: &'static str,
    owed: Option<f64>,
) -> Row {
    Row { scenario, figure, what: rate(name), owed }
}

const fn rate(name: &'static str) -> What {
    What { part: Part::Gateways, name, unit: "/s", aim: Aim::More }
}

/// Measures what a gateway of its own, and TLS, cost.
pub(crate) fn measure(tools: &Tools, scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    apart(generator, page)?;
    over_tls(tools, scale, page)
}

fn apart(generator: &mut Generator, page: &mut Page) -> Result<()> {
    let whole = Kohort::start(Options::default())?;
    let one_gateway = deployment::Options { gateways: 1, is_direct: true, ..deployment::Options::default() };
    let apart = Deployment::start(one_gateway)?;
    let on = On::Apart { whole: whole.bootstrap(), apart: apart.bootstrap() };
    let mut scenarios: Vec<&[&str]> = ROWS.iter().map(|row| row.scenario).collect();
    scenarios.dedup();
    for scenario in scenarios {
        let figures = if scenario == HEARTBEAT {
            generator.run_in_turns(scenario, &on)?
        } else {
            generator.run(scenario, &on)?
        };
        page.note(scenario[0], &figures);
        for Row { figure, what, owed, .. } in ROWS.into_iter().filter(|row| row.scenario == scenario) {
            let which_is = Beside::in_turns(figures.values("kohort", figure)?);
            page.add(what, true, figures.values("gateway", figure)?);
            page.owe(
                what,
                match owed {
                    Some(share) => Owed::ShareOf { share, of: "one process", which_is },
                    None => Owed::Nothing { of: "one process", which_is },
                },
            );
        }
    }
    Ok(())
}

fn over_tls(tools: &Tools, scale: Scale, page: &mut Page) -> Result<()> {
    let directory = tempfile::tempdir().context("create a directory for certificates")?;
    let authority = Authority::new("the authority");
    let certified = authority.certify(|_| ());
    let (keystore, ca) = (directory.path().join("server.pem"), directory.path().join("ca.pem"));
    fs::write(&keystore, format!("{}{}", certified.certificate, certified.key))
        .context("write a certificate")?;
    fs::write(&ca, authority.pem()).context("write a certificate")?;
    let options = Options::default().listen("TLS", "SSL");
    let kohort = Kohort::start(options.set("ssl.keystore.location", &keystore.display().to_string()))?;
    let trusting = format!("ssl.truststore.location={}", ca.display());
    let tls = ["security.protocol=SSL", "ssl.truststore.type=PEM", &trusting];
    let mut connection = Connection::open(&kohort.bootstrap())?;
    let mut plain = Vec::new();
    for repetition in 0..scale.repetitions {
        let topics = [format!("plain-{repetition}"), format!("tls-{repetition}")];
        for topic in &topics {
            connection.create_topic(topic, 1)?;
        }
        plain.push(tools.java_produce(&kohort.bootstrap(), &topics[0], scale.java_records, &[])?);
        let rate = tools.java_produce(&kohort.listener("TLS"), &topics[1], scale.java_records, &tls)?;
        page.add(TLS, true, vec![rate]);
    }
    page.owe(
        TLS,
        Owed::ShareOf { share: OWED_OVER_TLS, of: "the same without TLS", which_is: Beside::in_turns(plain) },
    );
    Ok(())
}
