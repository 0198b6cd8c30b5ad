//! Scripts about rules: added, shown and taken away, good and bad.

use wire::AnyRequest;

use crate::acl_requests::*;
use crate::pair::Pair;

pub(crate) fn run(pair: &mut Pair) {
    adding(pair);
    names_and_people(pair);
    numbers(pair);
    showing(pair);
    taking_away(pair);
}

/// Rules of every kind; what is there already is added without complaint.
fn adding(pair: &mut Pair) {
    pair.ask("nothing", 3, |_| create_rules(&[]));
    for version in 1..=3 {
        let name = format!("version-{version}");
        pair.ask("one", version, |_| create_rules(&[Rule { name: &name, ..Rule::default() }]));
        pair.ask("the same again", version, |_| create_rules(&[Rule { name: &name, ..Rule::default() }]));
        pair.ask("one in two", version, |_| {
            let rule = Rule { name: &name, operation: 4, ..Rule::default() };
            create_rules(&[rule, Rule { pattern: PREFIXED, ..rule }, rule])
        });
        pair.settle_rules();
    }
    for kind in 2..=7 {
        let name = if kind == CLUSTER { "kafka-cluster" } else { "thing" };
        let rules: Vec<Rule<'_>> =
            (2..=15).map(|operation| Rule { kind, name, operation, ..Rule::default() }).collect();
        pair.ask("every operation", 3, |_| create_rules(&rules));
        let rule = Rule { kind, name, ..Rule::default() };
        pair.ask("some more", 3, |_| {
            create_rules(&[
                Rule { pattern: PREFIXED, ..rule },
                Rule { pattern: PREFIXED, permission: DENY, ..rule },
                Rule { permission: DENY, ..rule },
                Rule { name: "*", ..rule },
                Rule { name: "*", pattern: PREFIXED, ..rule },
                Rule { user: "*", ..rule },
                Rule { name: "thing-too", ..rule },
                Rule { name: "th", pattern: PREFIXED, ..rule },
                Rule { host: "10.0.0.1", ..rule },
            ])
        });
        pair.settle_rules();
    }
}

/// Names, principals and hosts that look odd.
fn names_and_people(pair: &mut Pair) {
    let odd_names = ["", " ", "bad name", "ünique", "a/b", ".", "kafka-cluster", "cluster"];
    for name in odd_names {
        for kind in [TOPIC, GROUP, CLUSTER] {
            for pattern in [LITERAL, PREFIXED] {
                pair.ask("an odd name", 3, |_| {
                    create_rules(&[Rule { kind, name, pattern, ..Rule::default() }])
                });
            }
        }
    }
    for principal in [
        "", ":", "User:", ":name", "name", "User:a:b", "Role:a", "user:a", "User: a", "User:*", "*", "*:*",
        "Ü:ü",
    ] {
        pair.ask("an odd principal", 3, |_| {
            let AnyRequest::CreateAcls(mut request) =
                create_rules(&[Rule { name: "people", ..Rule::default() }, Rule::default()])
            else {
                unreachable!("it is one")
            };
            principal.clone_into(&mut request.creations[0].principal);
            AnyRequest::CreateAcls(request)
        });
    }
    for host in
        ["", " ", "localhost", "::1", "0:0:0:0:0:0:0:1", "127.0.0.1", "127.0.0.1/8", "10.*", "256.1.1.1"]
    {
        pair.ask("an odd host", 3, |_| create_rules(&[Rule { name: "hosts", host, ..Rule::default() }]));
    }
    pair.settle_rules();
}

/// Numbers that mean something, and others.
fn numbers(pair: &mut Pair) {
    let rule = Rule { name: "numbers", ..Rule::default() };
    for number in -2..=17 {
        for rule in [
            Rule { kind: number, ..rule },
            Rule { pattern: number, ..rule },
            Rule { operation: number, ..rule },
            Rule { permission: number, ..rule },
        ] {
            pair.ask("a number", 3, |_| create_rules(&[rule, Rule { name: "numbers-too", ..rule }]));
        }
    }
    pair.ask("two things wrong", 3, |_| create_rules(&[Rule { kind: 99, operation: 99, ..rule }]));
    pair.ask("a number and a name", 3, |_| create_rules(&[Rule { operation: 99, name: "", ..rule }]));
    pair.settle_rules();
    for number in -2..=17 {
        for filter in [
            Filter { kind: number, ..Filter::default() },
            Filter { pattern: number, ..Filter::default() },
            Filter { operation: number, ..Filter::default() },
            Filter { permission: number, ..Filter::default() },
        ] {
            for name in [None, Some("thing"), Some("nothing")] {
                pair.ask("a number", 3, |_| show_rules(Filter { name, ..filter }));
            }
            // What would take everything away is asked for of a name that has no rules.
            let name = Some("nothing");
            pair.ask("a number", 3, |_| delete_rules(&[Filter { name, ..filter }]));
        }
    }
}

fn showing(pair: &mut Pair) {
    let names =
        [None, Some("thing"), Some("thing-t"), Some("thing-too"), Some("th"), Some("*"), Some(""), Some("x")];
    for version in 1..=3 {
        for pattern in 1..=4 {
            for name in names {
                for kind in [1, 2, 3, 4] {
                    pair.ask("by name", version, |_| {
                        show_rules(Filter { kind, name, pattern, ..Filter::default() })
                    });
                }
            }
        }
    }
    for principal in
        [None, Some("User:some"), Some("User:*"), Some("User:x"), Some(""), Some("some"), Some("*")]
    {
        for host in [None, Some("*"), Some("10.0.0.1"), Some(""), Some("::1"), Some("0:0:0:0:0:0:0:1")] {
            for operation in [1, 2, 3, 4] {
                pair.ask("by who and where", 3, |_| {
                    show_rules(Filter { principal, host, operation, ..Filter::default() })
                });
            }
        }
    }
}

fn taking_away(pair: &mut Pair) {
    pair.ask("no filter", 3, |_| delete_rules(&[]));
    let by_name = |name, pattern| Filter { name: Some(name), pattern, ..Filter::default() };
    for (version, filters) in [
        (1, vec![by_name("version-1", 3)]),
        (2, vec![by_name("version-2", 4)]),
        (3, vec![by_name("version-3", 1)]),
        (3, vec![by_name("version-3", 1)]),
        (3, vec![Filter { host: Some("10.0.0.1"), ..Filter::default() }]),
        (3, vec![by_name("nothing", 2), by_name("thing-too", 2), by_name("thing", 3)]),
        (3, vec![Filter { kind: GROUP, operation: 3, permission: DENY, ..Filter::default() }]),
        (3, vec![Filter { kind: CLUSTER, ..Filter::default() }, Filter { kind: 99, ..Filter::default() }]),
        (3, vec![Filter { principal: Some("User:*"), ..Filter::default() }]),
        (3, vec![Filter { pattern: PREFIXED, ..Filter::default() }, Filter::default()]),
        (3, vec![Filter::default()]),
    ] {
        pair.ask("taken away", version, |_| delete_rules(&filters));
        pair.settle_rules();
    }
}
