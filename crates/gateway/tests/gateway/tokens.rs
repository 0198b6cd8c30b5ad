//! Clients that show a token.

use std::time::{Duration, SystemTime};

use gateway::{Mechanism, OAuth, Options, Sasl, Security};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use sasl::base64::encode_url;
use serde_json::{Value, json};

use crate::certificates::Files;
use crate::logins::{FAILED, impatient};
use crate::script::{Client, Running, describe, guarded};

/// Signs tokens.
struct Issuer(KeyPair);

impl Issuer {
    fn new() -> Self {
        Self(KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key"))
    }

    fn jwks(&self) -> String {
        let x = encode_url(self.0.der_bytes());
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x }] }).to_string()
    }

    fn token(&self, claims: &Value) -> String {
        let part = |value: &Value| encode_url(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&json!({ "alg": "EdDSA", "kid": "one" })), part(claims));
        let signature = self.0.sign(signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", encode_url(&signature))
    }
}

fn in_seconds(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    now.as_secs() + seconds
}

fn start(files: &Files, issuer: &Issuer, max_reauth: Option<Duration>) -> Running {
    let oauth = OAuth {
        jwks: files.put("jwks.json", &issuer.jwks()),
        audiences: vec!["kohort".to_owned()],
        issuer: None,
        subject_claim: "sub".to_owned(),
        clock_skew: Duration::from_secs(30),
    };
    let sasl =
        Sasl { mechanisms: vec![Mechanism::OauthBearer], max_reauth, oauth: Some(oauth), ..Sasl::default() };
    let security = Security { sasl: Some(sasl), ..Security::default() };
    Running::start_on(vec![guarded("SASL", "127.0.0.1:0", security)], impatient())
}

fn alice() -> Value {
    json!({ "sub": "alice", "aud": "kohort", "exp": in_seconds(600) })
}

fn first_message(token: &str) -> String {
    format!("n,,\x01auth=Bearer {token}\x01\x01")
}

async fn chosen(gateway: &Running) -> Client {
    let mut client = gateway.connect().await;
    assert_eq!(client.choose("OAUTHBEARER", 1).await.error_code, 0);
    client
}

#[tokio::test]
async fn a_token_lets_its_subject_in_for_as_long_as_it_holds() {
    let (files, issuer) = (Files::new(), Issuer::new());
    let mut gateway = start(&files, &issuer, None);
    let mut client = chosen(&gateway).await;
    let answer = client.show(first_message(&issuer.token(&alice())), 2).await;
    assert_eq!((answer.error_code, &answer.auth_bytes[..]), (0, &b""[..]), "{:?}", answer.error_message);
    assert!((590_000..=600_000).contains(&answer.session_lifetime_ms), "{}", answer.session_lifetime_ms);
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(&**gateway.next_call().await.carrier.principal(), "User:alice");

    let gateway = start(&files, &issuer, Some(Duration::from_secs(60)));
    let mut client = chosen(&gateway).await;
    let answer = client.show(first_message(&issuer.token(&alice())), 2).await;
    assert_eq!(answer.session_lifetime_ms, 60_000, "the shorter of the two");
}

#[tokio::test]
async fn a_token_may_name_an_organisation_that_exists() {
    let (files, issuer) = (Files::new(), Issuer::new());
    let mut gateway = start(&files, &issuer, None);
    let acme = gateway.script.add_org("acme", 7);
    let mut claims = alice();
    claims["sub"] = json!("acme/alice");
    let mut client = chosen(&gateway).await;
    assert_eq!(client.show(first_message(&issuer.token(&claims)), 2).await.error_code, 0);
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(gateway.next_call().await.carrier.org(), acme);
    claims["sub"] = json!("umbrella/alice");
    let mut client = chosen(&gateway).await;
    assert_eq!(client.show(first_message(&issuer.token(&claims)), 2).await.error_code, FAILED);
}

#[tokio::test]
async fn a_token_that_is_not_accepted_is_refused_in_the_mechanisms_own_words_first() {
    let (files, issuer) = (Files::new(), Issuer::new());
    let gateway = start(&files, &issuer, None);
    let mut expired = alice();
    expired["exp"] = json!(in_seconds(0) - 60);
    let mut other = alice();
    other["aud"] = json!("someone else");
    for token in
        [Issuer::new().token(&alice()), issuer.token(&expired), issuer.token(&other), "a.b.c".to_owned()]
    {
        let mut client = chosen(&gateway).await;
        let answer = client.show(first_message(&token), 2).await;
        assert_eq!((answer.error_code, &answer.auth_bytes[..]), (0, &br#"{"status":"invalid_token"}"#[..]));
        let answer = client.show("\x01", 2).await;
        let said = r#"{"status":"invalid_token"}"#;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(said)));
        assert!(client.is_closed().await);
    }
    let mut client = chosen(&gateway).await;
    let message = format!("n,a=bob,\x01auth=Bearer {}\x01\x01", issuer.token(&alice()));
    assert_eq!(client.show(message, 2).await.error_code, FAILED, "nobody acts as another");
    let mut client = chosen(&gateway).await;
    assert_eq!(client.show("\x01", 2).await.error_code, FAILED, "a message without a token");
    let failures = gateway.metric("authentication_failures_total{mechanism=\"OAUTHBEARER\"}");
    assert_eq!(failures, Some(6.0));
}

#[tokio::test]
async fn who_does_not_stay_for_the_last_word_has_failed_too() {
    let (files, issuer) = (Files::new(), Issuer::new());
    let gateway = start(&files, &issuer, None);
    let mut client = chosen(&gateway).await;
    let answer = client.show(first_message("a.b.c"), 2).await;
    assert_eq!(&answer.auth_bytes[..], br#"{"status":"invalid_token"}"#);
    let failures = gateway.metric("authentication_failures_total{mechanism=\"OAUTHBEARER\"}");
    assert_eq!(failures, Some(1.0));
}

#[tokio::test]
async fn new_keys_are_picked_up() {
    let (files, old, new) = (Files::new(), Issuer::new(), Issuer::new());
    let gateway = start(&files, &old, None);
    files.put("jwks.json", &new.jwks());
    crate::script::soon(async {
        loop {
            let mut client = chosen(&gateway).await;
            let answer = client.show(first_message(&new.token(&alice())), 2).await;
            if answer.auth_bytes.is_empty() && answer.error_code == 0 {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn tokens_need_a_file_of_keys() {
    let sasl = Sasl { mechanisms: vec![Mechanism::OauthBearer], ..Sasl::default() };
    let files = Files::new();
    let bind = |sasl: Sasl| {
        let security = Security { sasl: Some(sasl), ..Security::default() };
        gateway::Gateway::bind(vec![guarded("SASL", "127.0.0.1:0", security)], Options::default())
            .expect_err("it cannot work")
            .to_string()
    };
    assert!(bind(sasl.clone()).contains("sasl.oauthbearer.jwks.endpoint.url"));
    let oauth = OAuth {
        jwks: files.put("jwks.json", "{}"),
        audiences: Vec::new(),
        issuer: None,
        subject_claim: "sub".to_owned(),
        clock_skew: Duration::ZERO,
    };
    let said = bind(Sasl { oauth: Some(oauth), ..sasl });
    assert!(said.contains("jwks.json"), "{said}");
}
