//! Real clients that log in, or are not let in and told why.

use std::sync::Mutex;
use std::thread;

use e2e::clients::Client;

use crate::certificates::Authority;
use crate::world::{CLIENTS, TOPIC, Who, World};

/// How many clients run beside each other.
const AT_ONCE: usize = 3;

/// One login and what must become of it.
struct Case {
    what: &'static str,
    listener: &'static str,
    who: Who,
    /// Where it must fail, one of these must be in what the client says, in small letters.
    refused: &'static [&'static str],
}

#[test]
fn clients_come_in_by_every_way_that_is_offered() {
    let world = World::start(&[]);
    world.populate();
    world.command(&["topic", "create", TOPIC, "--partitions", "2", "--bootstrap", &world.kohort.bootstrap()]);
    let sasl = |protocol, mechanism, user, password| world.by_password(protocol, mechanism, user, password);
    let tls = Who { protocol: "SSL", ca: world.ca(), ..Who::default() };
    let bearer = Who {
        protocol: "SASL_SSL",
        mechanism: Some("OAUTHBEARER"),
        token: Some(world.good_token("ann")),
        ca: world.ca(),
        ..Who::default()
    };
    let good = |what, listener, who| Case { what, listener, who, refused: &[] };
    run_all(
        &world,
        &[
            good("TLS", "TLS", tls.clone()),
            good(
                "mutual TLS",
                "MUTUAL",
                Who { shown: Some(world.certificate(&world.authority, "ann")), ..tls },
            ),
            good("SCRAM without TLS", "BARE", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", "ann", "short secret")),
            good("SCRAM-SHA-256", "FULL", sasl("SASL_SSL", "SCRAM-SHA-256", "zoe", "sécrèt")),
            good("SCRAM-SHA-512", "FULL", sasl("SASL_SSL", "SCRAM-SHA-512", "ann", "short secret")),
            good("PLAIN", "FULL", sasl("SASL_SSL", "PLAIN", "ann", "short secret")),
            good("a token", "FULL", bearer),
            good(
                "another organisation by name",
                "FULL",
                sasl("SASL_SSL", "SCRAM-SHA-512", "acme/ann", "another secret"),
            ),
            good(
                "another organisation by listener",
                "ACME",
                sasl("SASL_SSL", "SCRAM-SHA-256", "ann", "another secret"),
            ),
        ],
    );
}

#[test]
fn clients_that_show_something_wrong_are_told_and_not_let_in() {
    let world = World::start(&[]);
    world.populate();
    let sasl = |protocol, mechanism, user, password| world.by_password(protocol, mechanism, user, password);
    let tls = Who { protocol: "SSL", ca: world.ca(), ..Who::default() };
    let stranger = Authority::new("another authority");
    let foreign_ca = world.file("stranger.pem", &stranger.pem());
    let token = |token| Who {
        protocol: "SASL_SSL",
        mechanism: Some("OAUTHBEARER"),
        token: Some(token),
        ca: world.ca(),
        ..Who::default()
    };
    let bad = |what, listener, who, refused| Case { what, listener, who, refused };
    const LOGIN: &[&str] = &["authentication"];
    // franz-go does not read what is wrong with a token.
    const TOKEN: &[&str] = &["authentication", "oauth"];
    const CERTIFICATE: &[&str] = &["certificate", "ssl", "handshake", "tls"];
    const MECHANISM: &[&str] = &["mechanism"];
    run_all(
        &world,
        &[
            bad(
                "a wrong password",
                "BARE",
                sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", "ann", "no secret"),
                LOGIN,
            ),
            bad("nobody's name", "FULL", sasl("SASL_SSL", "SCRAM-SHA-512", "bob", "short secret"), LOGIN),
            bad("a wrong password in clear", "FULL", sasl("SASL_SSL", "PLAIN", "ann", "no secret"), LOGIN),
            bad("a token that has ended", "FULL", token(world.token("ann", "kohort", -300)), TOKEN),
            bad("a token for somebody else", "FULL", token(world.token("ann", "other", 300)), TOKEN),
            bad(
                "a user of another organisation",
                "ACME",
                sasl("SASL_SSL", "SCRAM-SHA-256", "zoe", "sécrèt"),
                LOGIN,
            ),
            bad(
                "a mechanism that is not offered",
                "BARE",
                sasl("SASL_PLAINTEXT", "PLAIN", "ann", "short secret"),
                MECHANISM,
            ),
            bad("an expired certificate", "EXPIRED", tls.clone(), CERTIFICATE),
            bad("an unknown authority", "TLS", Who { ca: Some(foreign_ca), ..tls.clone() }, CERTIFICATE),
            bad("no certificate where one is asked for", "MUTUAL", tls.clone(), CERTIFICATE),
            bad(
                "a certificate of a stranger",
                "MUTUAL",
                Who { shown: Some(world.certificate(&stranger, "ann")), ..tls },
                CERTIFICATE,
            ),
        ],
    );
    let topics = world.command(&["topic", "list", "-o", "json", "--bootstrap", &world.kohort.bootstrap()]);
    assert!(!topics.contains(TOPIC), "somebody was let in: {topics}");
}

fn run_all(world: &World, cases: &[Case]) {
    let all: Vec<(Client, &Case)> =
        CLIENTS.into_iter().flat_map(|client| cases.iter().map(move |case| (client, case))).collect();
    let (waiting, problems) = (Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((client, case)) = { waiting.lock().unwrap().next() } {
                    if let Some(problem) = problem(world, client, case) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}\n{}", problems.join("\n"), world.kohort.output());
}

/// Whether the client never says why it was not let in.
fn is_mute(client: Client, said: &str) -> bool {
    client == Client::KafkaPython && said.contains("unable to bootstrap")
}

fn problem(world: &World, client: Client, case: &Case) -> Option<String> {
    let finished = world.log_in(client, case.listener, &case.who)?;
    let said = finished.stderr.to_lowercase();
    let is_as_expected = match case.refused {
        [] => finished.success(),
        words => {
            !finished.success() && (words.iter().any(|word| said.contains(word)) || is_mute(client, &said))
        }
    };
    let outcome = if finished.success() { "was let in" } else { "was not let in" };
    (!is_as_expected).then(|| format!("{}, {}: {outcome}: {}", client.name(), case.what, finished.stderr))
}
