//! Scripts about logins, passwords and quotas, good and bad.

use bytes::Bytes;
use sasl::scram::{Client, Variant};
use wire::api::api_versions::ApiVersionsRequest;
use wire::{AnyRequest, AnyResponse, ApiKey};

use crate::acl_requests::*;
use crate::guests::{ADMIN, Talk, authenticate, handshake};
use crate::pair::{Pair, newest};
use crate::requests::{all_topics, create, find_group, topic};

pub(crate) fn run(pair: &mut Pair) {
    choosing_a_mechanism(pair);
    out_of_order(pair);
    plain_words(pair);
    scram_words(pair);
    strangers(pair);
    bare_words(pair);
    passwords(pair);
    other_users_passwords(pair);
    quotas(pair);
}

fn choosing_a_mechanism(pair: &mut Pair) {
    for version in 0..=1 {
        for mechanism in
            ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "plain", "", "ü"]
        {
            pair.converse(
                &format!("the mechanism {mechanism:?}, version {version}"),
                &[(version, handshake(mechanism))],
            );
            pair.ask("where nobody is asked", version, |_| handshake(mechanism));
        }
    }
    pair.converse(
        "another mechanism after one that there is not",
        &[(1, handshake("GSSAPI")), (1, handshake("PLAIN")), (2, authenticate("\0some\0somes secret"))],
    );
    pair.converse(
        "another mechanism after one that there is",
        &[(1, handshake("SCRAM-SHA-256")), (1, handshake("PLAIN"))],
    );
    for version in 0..=2 {
        pair.ask("where nobody is asked", version, |_| authenticate("\0some\0wrong"));
    }
}

/// Requests where others are due.
fn out_of_order(pair: &mut Pair) {
    let versions = || AnyRequest::ApiVersions(ApiVersionsRequest::default());
    for version in 0..=4 {
        let named = || {
            AnyRequest::ApiVersions(ApiVersionsRequest {
                client_software_name: "kohort".to_owned(),
                client_software_version: "1".to_owned(),
            })
        };
        pair.converse("versions first", &[(version, named()), (1, handshake("PLAIN"))]);
        pair.converse("versions twice", &[(version, named()), (version, named())]);
        pair.converse("versions in the middle", &[(1, handshake("PLAIN")), (version, named())]);
        pair.converse("versions with a bad name", &[(version, versions())]);
    }
    for (version, request) in others() {
        pair.converse("another request first", &[(version, request.clone())]);
        pair.converse(
            "another request in the middle",
            &[(1, handshake("PLAIN")), (version, request.clone())],
        );
        pair.converse(
            "another request after a failure",
            &[(1, handshake("PLAIN")), (2, authenticate("\0some\0wrong")), (version, request.clone())],
        );
    }
    for version in 0..=2 {
        pair.converse("a login without a mechanism", &[(version, authenticate("\0some\0somes secret"))]);
        pair.converse(
            "a login after a login",
            &[
                (1, handshake("PLAIN")),
                (version, authenticate("\0some\0somes secret")),
                (version, authenticate("\0some\0somes secret")),
                (1, handshake("PLAIN")),
                (0, versions()),
            ],
        );
    }
}

fn others() -> [(i16, AnyRequest); 4] {
    [
        (newest(ApiKey::Metadata), all_topics(false)),
        (0, find_group("g")),
        (7, create(&[topic("intruder", 1, 1)], false)),
        (3, all_rules()),
    ]
}

fn plain_words(pair: &mut Pair) {
    let messages: [&[u8]; 18] = [
        b"\0some\0somes secret",
        b"some\0some\0somes secret",
        b"other\0some\0somes secret",
        b"\0some\0wrong",
        b"\0some\0",
        b"\0\0somes secret",
        b"\0ghost\0somes secret",
        b"\0SOME\0somes secret",
        b"\0some",
        b"some",
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0",
        b"\0some\0somes secret\0",
        b"\0some\0somes secret\0more",
        b"\0some\0\xff\xfe",
        b"\0\xff\0somes secret",
    ];
    for message in messages {
        for version in [0, 2] {
            let request = authenticate(Bytes::from_static(message));
            pair.converse(
                &format!("PLAIN {:?}", String::from_utf8_lossy(message)),
                &[(1, handshake("PLAIN")), (version, request), (0, find_group("g"))],
            );
        }
    }
}

fn scram_words(pair: &mut Pair) {
    pair.ask("a second password", 0, |_| give(&[("some", Variant::Sha512)]));
    // Whoever has just been given a password is let in a moment later.
    pair.ask_until_same("the users", 0, |_| show_users(None));
    for variant in Variant::ALL {
        for (user, password) in [("some", "somes secret"), ("some", "wrong"), ("some", "")] {
            for spoil in [false, true] {
                pair.talk(&format!("{} {user} {password:?} {spoil}", variant.name()), |talk| {
                    scram(talk, variant, user, password, spoil);
                });
            }
        }
        for message in [
            "",
            "n",
            "n,,",
            "n,,n=some",
            "n,,n=some,r=",
            "n,,r=abc,n=some",
            "n,,n=,r=abc",
            "y,,n=some,r=abc",
            "p=tls-unique,,n=some,r=abc",
            "n,a=some,n=some,r=abc",
            "n,a=other,n=some,r=abc",
            "n,,m=x,n=some,r=abc",
            "n,,n=so=me,r=abc",
            "n,,n=some,r=abc,x=y",
            "n,,n=some,r=abc,tokenauth=true",
        ] {
            pair.converse(
                &format!("{} {message:?}", variant.name()),
                &[
                    (1, handshake(variant.name())),
                    (2, authenticate(message.to_owned())),
                    (2, authenticate("c=biws,r=abc,p=AAAA")),
                    (0, find_group("g")),
                ],
            );
        }
    }
}

/// Whoever does not exist.
fn strangers(pair: &mut Pair) {
    for variant in Variant::ALL {
        pair.talk(&format!("{} of nobody", variant.name()), |talk| {
            scram(talk, variant, "ghost", "somes secret", false);
        });
    }
    // She has a password, but not of this kind.
    pair.talk("SCRAM-SHA-512 of somebody without", |talk| {
        scram(talk, Variant::Sha512, "other", "others secret", false);
    });
}

/// After version 0 of SaslHandshake a mechanism's messages come without headers.
fn bare_words(pair: &mut Pair) {
    for message in [&b"\0some\0somes secret"[..], b"\0some\0wrong", b"", b"some", b"\0ghost\0"] {
        pair.talk(&format!("bare PLAIN {:?}", String::from_utf8_lossy(message)), |talk| {
            talk.say(0, &handshake("PLAIN"));
            talk.say_bare(message);
            talk.say(0, &find_group("g"));
        });
    }
}

/// AlterUserScramCredentials and DescribeUserScramCredentials.
fn passwords(pair: &mut Pair) {
    let bob = || given("bob", Variant::Sha256);
    let strong = || given("bob", Variant::Sha512);
    type Deleted = &'static [(&'static str, i8)];
    let cases: [(&str, Deleted, Vec<Given>); 22] = [
        ("nothing", &[], vec![]),
        ("one", &[], vec![bob()]),
        ("the same again", &[], vec![bob()]),
        ("two kinds in one", &[], vec![bob(), strong()]),
        ("the other kind", &[], vec![strong()]),
        ("the same twice", &[], vec![bob(), bob()]),
        ("gone and given", &[("bob", 1)], vec![bob()]),
        ("one gone, another given", &[("bob", 1)], vec![strong()]),
        ("both gone", &[("bob", 1), ("bob", 2)], vec![]),
        ("gone twice", &[("bob", 1), ("bob", 1)], vec![]),
        ("two users", &[("bob", 2)], vec![given("carl", Variant::Sha256), given("dora", Variant::Sha512)]),
        ("too few iterations", &[], vec![Given { iterations: 4095, ..bob() }]),
        ("too many iterations", &[], vec![Given { iterations: 16385, ..bob() }]),
        ("as many as there may be", &[], vec![Given { iterations: 16384, ..bob() }]),
        ("an unknown kind", &[("bob", 3)], vec![Given { mechanism: 0, name: "carl".to_owned(), ..bob() }]),
        ("no name", &[("", 1)], vec![]),
        ("no name", &[], vec![Given { name: String::new(), ..bob() }]),
        ("a bad one and a good one", &[("ghost", 1)], vec![bob()]),
        ("a bad one and a good one of the same", &[("bob", 9)], vec![bob()]),
        ("a good one and a bad one of the same", &[], vec![bob(), Given { iterations: 1, ..bob() }]),
        ("nobody's gone", &[("ghost", 1), ("ghost", 2)], vec![]),
        ("one that has only the other", &[("carl", 2)], vec![]),
    ];
    let look = |pair: &mut Pair| {
        pair.ask_until_same("everybody", 0, |_| show_users(None));
        pair.ask("nobody", 0, |_| show_users(Some(&[])));
        pair.ask("some", 0, |_| show_users(Some(&["bob", "ghost", ""])));
        pair.ask("one twice", 0, |_| show_users(Some(&["bob", "carl", "bob", "ghost", "ghost"])));
    };
    look(pair);
    for (what, deleted, given) in cases {
        pair.ask(what, 0, |_| alter_users(deleted, &given));
        look(pair);
    }
    pair.ask("all gone", 0, |_| alter_users(&[("bob", 1), ("carl", 1), ("dora", 2)], &[]));
    look(pair);
}

/// DescribeClientQuotas. Neither broker has been given any.
fn quotas(pair: &mut Pair) {
    type Asked = &'static [(&'static str, i8, Option<&'static str>)];
    let cases: [(&str, Asked); 19] = [
        ("all", &[]),
        ("a user", &[("user", 0, Some("bob"))]),
        ("a user and a client id", &[("user", 0, Some("bob")), ("client-id", 2, None)]),
        ("the default user", &[("user", 1, None)]),
        ("any user", &[("user", 2, None)]),
        ("any client id", &[("client-id", 2, None)]),
        ("an address", &[("ip", 0, Some("10.0.0.1"))]),
        ("any address", &[("ip", 2, None)]),
        ("no type", &[("", 0, Some("bob"))]),
        ("an unknown type", &[("group", 0, Some("bob"))]),
        ("a type with another case", &[("User", 0, Some("bob"))]),
        ("the same type twice", &[("user", 0, Some("bob")), ("user", 0, Some("carl"))]),
        ("an unknown type twice", &[("group", 9, None), ("group", 9, None)]),
        ("one without a name", &[("user", 0, None)]),
        ("a default with a name", &[("user", 1, Some("bob"))]),
        ("any with a name", &[("user", 2, Some("bob"))]),
        ("an unknown kind of match", &[("user", 3, None)]),
        ("an address of a user", &[("ip", 0, Some("10.0.0.1")), ("user", 0, Some("bob"))]),
        (
            "a user at any address, unknown",
            &[("client-id", 2, None), ("ip", 2, None), ("group", 0, Some("g"))],
        ),
    ];
    for (what, asked) in cases {
        for (version, strict) in [(0, false), (1, true)] {
            pair.ask(what, version, |_| show_quotas(asked, strict));
        }
    }
}

/// Whoever logged in by a password sees the same as who came in without.
fn other_users_passwords(pair: &mut Pair) {
    pair.ask_at(ADMIN, "everybody", 0, |_| show_users(None));
}

/// A whole exchange, with a proof that is spoilt or not.
fn scram(talk: &mut Talk<'_>, variant: Variant, user: &str, password: &str, spoil: bool) {
    let client = Client::new(variant, user, password, "nonce".repeat(5));
    talk.say(1, &handshake(variant.name()));
    let Some(AnyResponse::SaslAuthenticate(challenge)) = talk.say(2, &authenticate(client.first_message()))
    else {
        return;
    };
    let Ok((mut proof, signature)) = client.last_message(&challenge.auth_bytes) else { return };
    if spoil {
        proof = proof.replace("r=nonce", "r=nonsense");
    }
    if let Some(AnyResponse::SaslAuthenticate(last)) = talk.say(2, &authenticate(proof)) {
        assert!(last.error_code != 0 || signature.check(&last.auth_bytes).is_ok(), "the signature is right");
    }
    talk.say(0, &find_group("g"));
}
