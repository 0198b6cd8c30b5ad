//! Connections to both brokers whose users are known, and the rules about them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use e2e::kafka::{Kafka, Setup};
use e2e::kohort::{Kohort, Options};
use sasl::scram::{Client, Variant};
use wire::api::sasl_authenticate::SaslAuthenticateRequest;
use wire::api::sasl_handshake::SaslHandshakeRequest;
use wire::{AnyRequest, AnyResponse};

use crate::acl_requests::{Rule, all_rules, create_rules, give, password_of, show_users};
use crate::pair::{COMMON, FRONT, Outcome, Pair, Peer};
use crate::requests::{create, topic};

/// Whose a connection is.
pub(crate) struct Guest {
    /// The listener that it is made to.
    pub(crate) address: String,
    /// Who logs in when it is made; where it is nobody, nothing is said.
    pub(crate) user: Option<&'static str>,
}

/// Nobody yet: a connection to the listener where one has to say who one is.
pub(crate) const STRANGER: usize = 50;
/// Somebody about whom there is no rule.
pub(crate) const NONE: usize = 51;
/// Somebody who may do exactly what is needed.
pub(crate) const SOME: usize = 52;
/// Somebody who may do everything but what is needed.
pub(crate) const OTHER: usize = 53;
/// Somebody who may do everything, and is denied what is needed.
pub(crate) const DENIED: usize = 54;
/// One of the users who may do everything.
pub(crate) const ADMIN: usize = 55;
/// Who finds out whether rules have arrived.
const FENCE: usize = 56;

/// The users, and their connections.
pub(crate) const USERS: [(usize, &str); 6] = [
    (NONE, "none"),
    (SOME, "some"),
    (OTHER, "other"),
    (DENIED, "denied"),
    (ADMIN, "admin"),
    (FENCE, "fence"),
];

/// How long Kafka may take until users or rules that it has accepted are known to all its parts.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);

const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

impl Pair {
    /// Starts both with an authorizer and a listener that asks who its clients are, and makes [`USERS`] at both.
    pub(crate) fn start_with_an_authorizer() -> Self {
        let settings = [
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:ANONYMOUS;User:admin"),
            ("listener.name.door.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("offsets.topic.num.partitions", "1"),
            ("connection.failed.authentication.delay.ms", "0"),
        ];
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let users: String =
            USERS.iter().map(|(_, name)| format!(" user_{name}=\"{}\"", password_of(name))).collect();
        let plain = format!("org.apache.kafka.common.security.plain.PlainLoginModule required{users};");
        let of_kafka = [
            ("listener.name.door.plain.sasl.jaas.config", plain.as_str()),
            ("listener.name.door.scram-sha-256.sasl.jaas.config", scram),
            ("listener.name.door.scram-sha-512.sasl.jaas.config", scram),
        ];
        let kafka = Kafka::start_as(&Setup {
            properties: &[&COMMON, &settings[..], &of_kafka].concat(),
            listeners: &[("DOOR", "SASL_PLAINTEXT")],
            scram_users: &[],
        });
        let options = Options::default()
            .listen("DOOR", "SASL_PLAINTEXT")
            .set("listener.name.door.kohort.sasl.plain.without.tls", "true");
        let settings = COMMON.iter().chain(&settings);
        let options = settings.fold(options, |options, (name, value)| options.set(name, value));
        let kafka = kafka.expect("start Kafka");
        let kohort = Kohort::start(options).expect("start Kohort");
        let doors = [kafka.listener("DOOR"), kohort.listener("DOOR")];
        let mut pair = Self::of(kafka, kohort);
        for (peer, door) in [&mut pair.kafka, &mut pair.kohort].into_iter().zip(doors) {
            peer.guests.insert(STRANGER, Guest { address: door.clone(), user: None });
            for (seat, user) in USERS {
                peer.guests.insert(seat, Guest { address: door.clone(), user: Some(user) });
            }
        }
        for (_, user) in USERS {
            pair.ask("a user", 0, |_| give(&[(user, Variant::Sha256)]));
        }
        pair.ask_until_same("the users", 0, |_| show_users(None));
        pair
    }

    /// Adds rules at both and waits until all parts of Kafka know them.
    pub(crate) fn grant(&mut self, rules: &[Rule<'_>]) {
        self.ask("rules", 3, |_| create_rules(rules));
        self.settle_rules();
    }

    /// Waits until all parts of Kafka know of the changes to rules that were accepted so far.
    ///
    /// Its broker tells which ones it knows. Its controller, which decides about topics on its own, is asked for what
    /// it allows only once it has heard of a rule that came after all others.
    pub(crate) fn settle_rules(&mut self) {
        let name = format!("fence-{}", self.asked);
        let rule = Rule { kind: 2, name: &name, user: "fence", operation: 5, ..Rule::default() };
        self.ask("a rule", 3, |_| create_rules(&[rule]));
        if !self.rules_differ {
            let found = self.found.len();
            self.ask_until_same("all rules", 3, |_| all_rules());
            self.rules_differ = self.found.len() > found;
        }
        let begun = Instant::now();
        let request = create(&[topic(&name, 1, 1)], true);
        loop {
            let refused = [&mut self.kafka, &mut self.kohort].map(|peer| {
                let outcome = peer.ask_at(FENCE, 7, &request);
                let Outcome::Answer(AnyResponse::CreateTopics(answer)) = outcome else {
                    panic!("a topic is not made: {outcome:?}");
                };
                answer.topics[0].error_code == TOPIC_AUTHORIZATION_FAILED
            });
            if refused == [false, false] {
                return;
            }
            assert!(begun.elapsed() < KNOWN_WITHIN, "a rule does not arrive: {refused:?}");
        }
    }

    /// Sends these requests, one after the other, on a new connection of [`STRANGER`] and compares what came of it.
    pub(crate) fn converse(&mut self, what: &str, requests: &[(i16, AnyRequest)]) {
        self.talk(what, |talk| {
            for (version, request) in requests {
                talk.say(*version, request);
            }
        });
    }

    /// Lets `talk` speak with each on a new connection of [`STRANGER`] and compares what came of it.
    pub(crate) fn talk(&mut self, what: &str, talk: impl Fn(&mut Talk<'_>)) {
        self.asked += 1;
        let [kafka, kohort] = [&mut self.kafka, &mut self.kohort].map(|peer| {
            peer.hang_up(STRANGER);
            let mut said = Talk { peer, heard: Vec::new(), is_over: false };
            talk(&mut said);
            let heard = said.heard;
            peer.hang_up(STRANGER);
            heard
        });
        let differs = |(kafka, kohort): &(Heard, Heard)| kafka.what != kohort.what;
        if let Some((kafka, kohort)) = kafka.into_iter().zip(kohort).find(differs) {
            self.judge(what, kafka.version, &kafka.request, &kafka.what, &kohort.what);
        }
    }
}

/// What is said to one broker on a connection of [`STRANGER`], until it closes it.
pub(crate) struct Talk<'p> {
    pub(crate) peer: &'p mut Peer,
    heard: Vec<Heard>,
    is_over: bool,
}

/// What came of one step.
struct Heard {
    version: i16,
    request: AnyRequest,
    what: String,
}

impl Talk<'_> {
    /// Sends a request and notes what comes of it.
    pub(crate) fn say(&mut self, version: i16, request: &AnyRequest) -> Option<AnyResponse> {
        if self.is_over {
            return None;
        }
        let outcome = self.peer.say(STRANGER, version, request);
        let answer = match &outcome {
            Outcome::Answer(answer) => Some(answer.clone()),
            Outcome::Closed | Outcome::Silent => None,
        };
        self.is_over = answer.is_none();
        let what = self.peer.names.normal(request, outcome);
        self.heard.push(Heard { version, request: request.clone(), what });
        answer
    }

    /// Sends a mechanism's message without a header and notes what comes of it.
    pub(crate) fn say_bare(&mut self, message: &'static [u8]) {
        let mut frame = u32::try_from(message.len()).expect("short").to_be_bytes().to_vec();
        frame.extend_from_slice(message);
        self.peer.write(STRANGER, &frame);
        let answer = self.peer.read_frame(STRANGER);
        self.is_over = answer.is_err();
        self.heard.push(Heard { version: 0, request: authenticate(message), what: format!("{answer:?}") });
    }
}

impl Peer {
    /// Says who the connection's user is, if it has one; until a broker has heard of a user that takes a few attempts.
    pub(crate) fn log_in(&mut self, seat: usize) {
        let Some(user) = self.guests.get(&seat).and_then(|guest| guest.user) else { return };
        let begun = Instant::now();
        while !self.has_proved(seat, user) {
            self.hang_up(seat);
            assert!(begun.elapsed() < KNOWN_WITHIN, "{user} is not let in");
        }
    }

    fn has_proved(&mut self, seat: usize, user: &str) -> bool {
        let client = Client::new(Variant::Sha256, user, &password_of(user), "nonce".repeat(5));
        self.say(seat, 1, &handshake(Variant::Sha256.name()));
        let Outcome::Answer(AnyResponse::SaslAuthenticate(challenge)) =
            self.say(seat, 2, &authenticate(client.first_message()))
        else {
            return false;
        };
        let Ok((proof, signature)) = client.last_message(&challenge.auth_bytes) else { return false };
        let Outcome::Answer(AnyResponse::SaslAuthenticate(last)) = self.say(seat, 2, &authenticate(proof))
        else {
            return false;
        };
        signature.check(&last.auth_bytes).is_ok()
    }

    /// Sends a request on the connection of `seat` as it is, without a login, and returns what comes of it.
    pub(crate) fn say(&mut self, seat: usize, version: i16, request: &AnyRequest) -> Outcome {
        assert!(seat != FRONT, "nobody logs in there");
        self.send(seat, version, request);
        self.answer(seat, version, request.api())
    }
}

pub(crate) fn handshake(mechanism: &str) -> AnyRequest {
    AnyRequest::SaslHandshake(SaslHandshakeRequest { mechanism: mechanism.to_owned() })
}

pub(crate) fn authenticate(message: impl Into<Bytes>) -> AnyRequest {
    AnyRequest::SaslAuthenticate(SaslAuthenticateRequest { auth_bytes: message.into() })
}
