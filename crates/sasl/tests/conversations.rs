//! Clients and servers of SCRAM talking to each other.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use sasl::scram::{Challenged, Client, ClientFault, Refused, Server, Variant};
use sasl::{Credential, decoy_seed};

const SALT: &[u8] = b"sixteen bytes it";

fn challenge(client: &Client, variant: Variant, credential: Credential) -> Challenged {
    Server::hear(variant, client.first_message().as_bytes()).unwrap().challenge(credential, "ours")
}

fn client(variant: Variant, user: &str, password: &str) -> Client {
    Client::new(variant, user, password, "theirs".to_owned())
}

#[test]
fn whoever_knows_the_password_is_let_in_and_sees_that_the_server_knows_it_too() {
    for variant in Variant::ALL {
        let client = client(variant, "alice", "secret");
        let server = challenge(&client, variant, Credential::derive(variant, "secret", SALT, 4096));
        let (proof, signature) = client.last_message(server.message().as_bytes()).unwrap();
        let last = server.conclude(proof.as_bytes()).unwrap();
        assert_eq!(signature.check(last.as_bytes()), Ok(()));
        // Another server cannot have said so.
        assert_eq!(signature.check(b"v="), Err(ClientFault::WrongSignature));
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_cannot_be_told_apart() {
    let seed = decoy_seed(b"key", "default", "alice");
    for credential in [
        Credential::derive(Variant::Sha256, "another", SALT, 4096),
        Credential::decoy(Variant::Sha256, &seed, 4096),
    ] {
        let client = client(Variant::Sha256, "alice", "secret");
        let server = challenge(&client, Variant::Sha256, credential);
        let shape = server.message().len();
        assert_eq!(shape, "r=theirsours,s=AAAAAAAAAAAAAAAAAAAAAA==,i=4096".len());
        let (proof, _) = client.last_message(server.message().as_bytes()).unwrap();
        assert_eq!(server.conclude(proof.as_bytes()), Err(Refused::WrongPassword));
    }
}

#[test]
fn a_proof_is_of_no_use_in_another_exchange() {
    let kept = Credential::derive(Variant::Sha256, "secret", SALT, 4096);
    let client = client(Variant::Sha256, "alice", "secret");
    let overheard = challenge(&client, Variant::Sha256, kept.clone());
    let (proof, _) = client.last_message(overheard.message().as_bytes()).unwrap();
    let first = client.first_message();
    let other = Server::hear(Variant::Sha256, first.as_bytes()).unwrap().challenge(kept, "fresh");
    assert_eq!(other.conclude(proof.as_bytes()), Err(Refused::ForeignNonce));
    let renamed = proof.replace("theirsours", "theirsfresh");
    let kept = Credential::derive(Variant::Sha256, "secret", SALT, 4096);
    let other = Server::hear(Variant::Sha256, first.as_bytes()).unwrap().challenge(kept, "fresh");
    assert_eq!(other.conclude(renamed.as_bytes()), Err(Refused::WrongPassword));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_name_and_password_that_a_client_can_say_is_understood(
        user in "[^\0]{1,30}",
        password in ".{0,30}",
        nonce in "[!-+--~]{1,40}",
        salt in proptest::collection::vec(any::<u8>(), 1..40),
        long: bool,
    ) {
        let variant = if long { Variant::Sha512 } else { Variant::Sha256 };
        let client = Client::new(variant, &user, &password, nonce);
        let server = Server::hear(variant, client.first_message().as_bytes()).unwrap();
        prop_assert_eq!(server.user(), user);
        let server = server.challenge(Credential::derive(variant, &password, &salt, 4096), "ours");
        let (proof, signature) = client.last_message(server.message().as_bytes()).unwrap();
        let last = server.conclude(proof.as_bytes()).unwrap();
        prop_assert_eq!(signature.check(last.as_bytes()), Ok(()));
    }
}

proptest! {
    #[test]
    fn no_message_of_a_client_is_the_end(first: Vec<u8>, last: Vec<u8>) {
        let _ = Server::hear(Variant::Sha512, &first);
        let server = Server::hear(Variant::Sha256, b"n,,n=user,r=x").unwrap();
        let decoy = Credential::decoy(Variant::Sha256, b"seed", 4096);
        prop_assert!(server.challenge(decoy, "ours").conclude(&last).is_err());
    }

    /// Messages that are almost right.
    #[test]
    fn no_crooked_message_of_a_client_is_the_end(
        first in parts(&["n", "y", "p=", ",", "a=", "n=", "user", "r=", "x", "=2C", "m=", "tokenauth=true", "é"]),
        last in parts(&["c=", "biws", ",", "r=", "xours", "p=", "AAAA", "=", "é"]),
    ) {
        let _ = Server::hear(Variant::Sha256, first.as_bytes());
        let server = Server::hear(Variant::Sha256, b"n,,n=user,r=x").unwrap();
        let decoy = Credential::decoy(Variant::Sha256, b"seed", 4096);
        prop_assert!(server.challenge(decoy, "ours").conclude(last.as_bytes()).is_err());
    }
}

fn parts(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(prop::sample::select(parts), 0..14).prop_map(|parts| parts.concat())
}
