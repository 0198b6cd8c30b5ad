//! Tokens signed by keys of every kind, and many that are not what they seem.

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding,
};
use serde_json::json;

use super::*;

const NOW: i64 = 1_700_000_000;

/// The payload of the examples in RFC 7515, which expired in 2011.
const RFC_PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

/// The RSA key that RFC 7515 publishes in appendix A.2, both halves.
fn rfc_rsa() -> Value {
    serde_json::from_str(include_str!("../../tests/keys/rfc7515_appendix_a2.json")).unwrap()
}

fn part(key: &Value, name: &str) -> Vec<u8> {
    base64::decode_url(key[name].as_str().unwrap()).unwrap()
}

/// An issuer with a key of each kind.
struct Issuer {
    rsa: KeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let jwk = rfc_rsa();
        let [n, e, d, p, q, dp, dq, qi] =
            ["n", "e", "d", "p", "q", "dp", "dq", "qi"].map(|name| part(&jwk, name));
        let public_key = PublicKeyComponents { n: &n, e: &e };
        let rsa = KeyPairComponents { public_key, d: &d, p: &p, q: &q, dP: &dp, dQ: &dq, qInv: &qi };
        let ec = |kind| {
            let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).unwrap()
        };
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: KeyPair::from_components(&rsa).unwrap(),
            p256: ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            ed25519: Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap(),
            random,
        }
    }

    /// Its public keys, each named after its kind.
    fn published(&self) -> Value {
        let url = |bytes: &[u8]| base64::encode_url(bytes);
        let ec = |kid, crv, pair: &EcdsaKeyPair| {
            let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
            json!({ "kty": "EC", "kid": kid, "crv": crv, "x": url(x), "y": url(y), "use": "sig" })
        };
        let rsa = rfc_rsa();
        json!({ "keys": [
            { "kty": "RSA", "kid": "rsa", "n": rsa["n"], "e": rsa["e"] },
            ec("p256", "P-256", &self.p256),
            ec("p384", "P-384", &self.p384),
            {
                "kty": "OKP", "kid": "ed", "crv": "Ed25519", "key_ops": ["verify"],
                "x": url(self.ed25519.public_key().as_ref()),
            },
        ]})
    }

    fn jwks(&self) -> Jwks {
        Jwks::parse(&self.published().to_string()).unwrap()
    }

    fn kid(algorithm: Algorithm) -> &'static str {
        match algorithm {
            Algorithm::Es256 => "p256",
            Algorithm::Es384 => "p384",
            Algorithm::EdDsa => "ed",
            _ => "rsa",
        }
    }

    fn token(&self, algorithm: Algorithm, claims: &Value) -> String {
        let header = json!({ "alg": algorithm.name(), "kid": Self::kid(algorithm), "typ": "JWT" });
        self.token_with(algorithm, &header, claims)
    }

    /// Signs by `algorithm`, whatever the header says.
    fn token_with(&self, algorithm: Algorithm, header: &Value, claims: &Value) -> String {
        let url = |value: &Value| base64::encode_url(value.to_string().as_bytes());
        let signed = format!("{}.{}", url(header), url(claims));
        let message = signed.as_bytes();
        let rsa = |encoding: &'static dyn RsaEncoding| {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(encoding, &self.random, message, &mut signature).unwrap();
            signature
        };
        let signature = match algorithm {
            Algorithm::Rs256 => rsa(&RSA_PKCS1_SHA256),
            Algorithm::Rs384 => rsa(&RSA_PKCS1_SHA384),
            Algorithm::Rs512 => rsa(&RSA_PKCS1_SHA512),
            Algorithm::Ps256 => rsa(&RSA_PSS_SHA256),
            Algorithm::Ps384 => rsa(&RSA_PSS_SHA384),
            Algorithm::Ps512 => rsa(&RSA_PSS_SHA512),
            Algorithm::Es256 => self.p256.sign(&self.random, message).unwrap().as_ref().to_vec(),
            Algorithm::Es384 => self.p384.sign(&self.random, message).unwrap().as_ref().to_vec(),
            Algorithm::EdDsa => self.ed25519.sign(message).as_ref().to_vec(),
        };
        format!("{signed}.{}", base64::encode_url(&signature))
    }

    /// What becomes of a token with these claims.
    fn verdict(&self, claims: &Value, expected: &Expectations) -> Result<Claims, Refused> {
        self.jwks().verify(&self.token(Algorithm::EdDsa, claims), expected)
    }
}

fn expected() -> Expectations {
    Expectations {
        audience: Vec::new(),
        issuer: None,
        subject_claim: "sub".to_owned(),
        clock_skew: Duration::from_secs(30),
        now_ms: NOW * 1000,
    }
}

fn good() -> Value {
    json!({ "sub": "alice", "exp": NOW + 300 })
}

/// `claims` with those of `other` instead.
fn with(mut claims: Value, other: &Value) -> Value {
    for (name, value) in other.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

#[test]
fn tokens_signed_by_every_algorithm_are_accepted() {
    let issuer = Issuer::new();
    let jwks = issuer.jwks();
    assert_eq!(jwks.len(), 4);
    for algorithm in Algorithm::ALL {
        let token = issuer.token(algorithm, &good());
        let claims = Claims { subject: "alice".to_owned(), expires_ms: (NOW + 300) * 1000 };
        assert_eq!(jwks.verify(&token, &expected()), Ok(claims), "{algorithm:?}");
    }
}

#[test]
fn signatures_in_the_rfcs_are_right_and_only_their_claims_are_not() {
    let rsa = rfc_rsa();
    let jwks = Jwks::parse(
        &json!({ "keys": [
            { "kty": "RSA", "n": rsa["n"], "e": rsa["e"] },
            {
                "kty": "EC", "crv": "P-256",
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
            },
            { "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" },
        ]})
        .to_string(),
    )
    .unwrap();
    // Appendix A.2 and A.3 of RFC 7515. They name no subject.
    let rs256 = format!(
        "eyJhbGciOiJSUzI1NiJ9.{RFC_PAYLOAD}.\
         cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujG\
         bds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K\
         0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6\
         LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    );
    let es256 = format!(
        "eyJhbGciOiJFUzI1NiJ9.{RFC_PAYLOAD}.\
         DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    );
    let then = Expectations { now_ms: 1_300_819_000_000, subject_claim: "iss".to_owned(), ..expected() };
    let claims = Claims { subject: "joe".to_owned(), expires_ms: 1_300_819_380_000 };
    for token in [rs256, es256] {
        assert_eq!(jwks.verify(&token, &then), Ok(claims.clone()));
        assert_eq!(jwks.verify(&token, &expected()), Err(Refused::Expired));
    }
    // Appendix A.4 of RFC 8037 signs a sentence, which is found out only after the signature.
    let eddsa = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.\
                 hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    assert_eq!(jwks.verify(eddsa, &expected()), Err(Refused::Malformed));
}

#[test]
fn unsigned_and_symmetric_tokens_are_refused() {
    let issuer = Issuer::new();
    for alg in ["none", "None", "", "HS256", "HS384", "HS512", "ES512", "ES256K", "rs256", "RSA-OAEP"] {
        let header = json!({ "alg": alg, "kid": "ed" });
        let token = issuer.token_with(Algorithm::EdDsa, &header, &good());
        assert_eq!(issuer.jwks().verify(&token, &expected()), Err(Refused::Algorithm), "{alg}");
        let (unsigned, _) = token.rsplit_once('.').unwrap();
        let verdict = issuer.jwks().verify(&format!("{unsigned}."), &expected());
        assert_eq!(verdict, Err(Refused::Algorithm), "{alg}");
    }
}

#[test]
fn a_token_must_be_by_the_key_that_it_names_and_of_its_kind() {
    let issuer = Issuer::new();
    let jwks = issuer.jwks();
    let verdict = |algorithm, header| {
        let token = issuer.token_with(algorithm, &header, &good());
        jwks.verify(&token, &expected()).map(|claims| claims.subject)
    };
    let alg = |algorithm: Algorithm| algorithm.name();
    // The only key of a kind need not be named.
    assert_eq!(verdict(Algorithm::Es256, json!({ "alg": "ES256" })), Ok("alice".to_owned()));
    assert_eq!(
        verdict(Algorithm::Es256, json!({ "alg": "ES256", "kid": "other" })),
        Err(Refused::UnknownKey)
    );
    // A key of another kind, named.
    for (algorithm, kid) in [
        (Algorithm::Es256, "p384"),
        (Algorithm::Es256, "rsa"),
        (Algorithm::Rs256, "p256"),
        (Algorithm::EdDsa, "p256"),
    ] {
        let header = json!({ "alg": alg(algorithm), "kid": kid });
        assert_eq!(verdict(algorithm, header), Err(Refused::UnknownKey), "{kid}");
    }
    // Signed otherwise than it says.
    for (algorithm, says) in [
        (Algorithm::Rs256, Algorithm::Ps256),
        (Algorithm::Ps256, Algorithm::Rs256),
        (Algorithm::Rs256, Algorithm::Rs512),
        (Algorithm::Es384, Algorithm::Es256),
        (Algorithm::EdDsa, Algorithm::Rs256),
    ] {
        let header = json!({ "alg": alg(says), "kid": Issuer::kid(says) });
        assert_eq!(verdict(algorithm, header), Err(Refused::Signature), "{says:?}");
    }
    // By another issuer's key of the same name.
    let token = Issuer::new().token(Algorithm::EdDsa, &good());
    assert_eq!(jwks.verify(&token, &expected()), Err(Refused::Signature));
    // A key that it brings along itself.
    let stranger = Issuer::new();
    let header = json!({ "alg": "EdDSA", "kid": "ed", "jwk": stranger.published()["keys"][3] });
    let token = stranger.token_with(Algorithm::EdDsa, &header, &good());
    assert_eq!(jwks.verify(&token, &expected()), Err(Refused::Signature));
    let header = json!({ "alg": "EdDSA", "kid": "ed", "crit": ["b64"], "b64": false });
    assert_eq!(verdict(Algorithm::EdDsa, header), Err(Refused::Critical));
}

#[test]
fn a_key_may_be_for_one_algorithm_only_and_several_must_be_told_apart() {
    let issuer = Issuer::new();
    let rsa = rfc_rsa();
    let key = |kid: Option<&str>, alg: Option<&str>| json!({ "kty": "RSA", "kid": kid, "alg": alg, "n": rsa["n"], "e": rsa["e"] });
    let verdict = |keys: Value, algorithm, header| {
        let jwks = Jwks::parse(&json!({ "keys": keys }).to_string()).unwrap();
        jwks.verify(&issuer.token_with(algorithm, &header, &good()), &expected()).map(|claims| claims.subject)
    };
    let only = json!([key(None, Some("PS256"))]);
    assert_eq!(verdict(only.clone(), Algorithm::Ps256, json!({ "alg": "PS256" })), Ok("alice".to_owned()));
    assert_eq!(verdict(only, Algorithm::Rs256, json!({ "alg": "RS256" })), Err(Refused::UnknownKey));
    let two = json!([key(Some("a"), None), key(Some("b"), None)]);
    assert_eq!(verdict(two.clone(), Algorithm::Rs256, json!({ "alg": "RS256" })), Err(Refused::UnknownKey));
    assert_eq!(verdict(two, Algorithm::Rs256, json!({ "alg": "RS256", "kid": "b" })), Ok("alice".to_owned()));
}

#[test]
fn a_token_holds_from_its_beginning_to_its_end() {
    let issuer = Issuer::new();
    let verdict = |claims: Value| issuer.verdict(&with(good(), &claims), &expected()).map(|it| it.expires_ms);
    assert_eq!(issuer.verdict(&json!({ "sub": "alice" }), &expected()), Err(Refused::NoExpiry));
    // The skew is half a minute.
    assert_eq!(verdict(json!({ "exp": NOW - 29 })), Ok((NOW - 29) * 1000));
    assert_eq!(verdict(json!({ "exp": NOW - 30 })), Err(Refused::Expired));
    assert_eq!(verdict(json!({ "exp": 0 })), Err(Refused::Expired));
    assert_eq!(verdict(json!({ "exp": -5 })), Err(Refused::Expired));
    assert_eq!(verdict(json!({ "exp": NOW as f64 + 0.5 })), Ok(NOW * 1000 + 500));
    for claim in ["nbf", "iat"] {
        assert!(verdict(json!({ claim: NOW + 30 })).is_ok());
        assert_eq!(verdict(json!({ claim: NOW + 31 })), Err(Refused::TooEarly));
        assert_eq!(verdict(json!({ claim: "soon" })), Err(Refused::Malformed));
    }
    for odd in [json!(null), json!("never"), json!([1]), json!(i64::MAX), json!(u64::MAX), json!(1e300)] {
        assert_eq!(verdict(json!({ "exp": odd })), Err(Refused::Malformed), "{odd}");
    }
    let forever = Expectations { clock_skew: Duration::MAX, ..expected() };
    assert!(issuer.verdict(&with(good(), &json!({ "exp": 1, "nbf": NOW * 2 })), &forever).is_ok());
}

#[test]
fn issuer_audience_and_subject_are_as_expected() {
    let issuer = Issuer::new();
    let strict = Expectations {
        audience: vec!["kohort".to_owned(), "kafka".to_owned()],
        issuer: Some("https://issuer.example".to_owned()),
        ..expected()
    };
    let fine = with(good(), &json!({ "iss": "https://issuer.example", "aud": "kafka" }));
    let verdict = |claims: Value, expected: &Expectations| {
        issuer.verdict(&with(fine.clone(), &claims), expected).map(|claims| claims.subject)
    };
    let alice = || Ok("alice".to_owned());
    assert_eq!(verdict(json!({}), &strict), alice());
    assert_eq!(verdict(json!({ "aud": ["account", "kohort"] }), &strict), alice());
    for aud in [json!("account"), json!(["account"]), json!([]), json!(null), json!(7), json!([["kafka"]])] {
        assert_eq!(verdict(json!({ "aud": aud }), &strict), Err(Refused::Audience), "{aud}");
    }
    // Where nobody is expected a token for someone is not for us.
    assert_eq!(verdict(json!({}), &expected()), Err(Refused::Audience));
    assert_eq!(verdict(json!({ "aud": null }), &expected()), alice());
    for iss in [json!("https://issuer.example/"), json!(null), json!(["https://issuer.example"])] {
        assert_eq!(verdict(json!({ "iss": iss }), &strict), Err(Refused::Issuer), "{iss}");
    }
    let by_mail = Expectations { subject_claim: "email".to_owned(), ..strict.clone() };
    assert_eq!(verdict(json!({ "email": "a@b" }), &by_mail), Ok("a@b".to_owned()));
    assert_eq!(verdict(json!({}), &by_mail), Err(Refused::Subject));
    for sub in [json!(""), json!(null), json!(7), json!(["alice"]), json!("x".repeat(1025))] {
        assert_eq!(verdict(json!({ "sub": sub }), &strict), Err(Refused::Subject), "{sub}");
    }
}

#[test]
fn tokens_that_are_none_are_refused() {
    let issuer = Issuer::new();
    let jwks = issuer.jwks();
    let token = issuer.token(Algorithm::EdDsa, &good());
    let parts: Vec<_> = token.split('.').collect();
    let [header, claims, signature] = parts[..] else { panic!("three parts") };
    let twice = base64::encode_url(br#"{"alg":"EdDSA","alg":"none","kid":"ed"}"#);
    for odd in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        header.to_owned(),
        format!("{header}.{claims}"),
        format!("{header}.{claims}.{signature}="),
        format!("{header}.{claims}.{signature}é"),
        format!("{twice}.{claims}.{signature}"),
        format!("é.{claims}.{signature}"),
        format!("{}.{claims}.{signature}", base64::encode_url(b"[]")),
        format!("{}.{claims}.{signature}", base64::encode_url("[".repeat(10_000).as_bytes())),
        format!("{}{token}", "x".repeat(MAX_TOKEN)),
    ] {
        assert_eq!(jwks.verify(&odd, &expected()), Err(Refused::Malformed), "{odd}");
    }
    // What was encrypted has five parts; here the second to fourth are taken for claims.
    let encrypted = format!("{header}.{claims}.{claims}.{claims}.{signature}");
    assert_eq!(jwks.verify(&encrypted, &expected()), Err(Refused::Signature));
    assert_eq!(jwks.verify(&format!("{header}.{claims}."), &expected()), Err(Refused::Signature));
    // Claims that are no object, though well signed.
    let token = issuer.token(Algorithm::EdDsa, &json!(["sub", "alice"]));
    assert_eq!(jwks.verify(&token, &expected()), Err(Refused::Malformed));
}

#[test]
fn sets_of_keys_without_a_usable_one_are_refused() {
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":7}"#] {
        assert!(matches!(Jwks::parse(text), Err(JwksError::Malformed(_))), "{text}");
    }
    let said = Jwks::parse("keys: 7").unwrap_err().to_string();
    assert_eq!(said, "not a set of keys in JSON: expected value at line 1 column 1");
    let rsa = rfc_rsa();
    let (n, x) = (rsa["n"].as_str().unwrap(), "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    for key in [
        json!(null),
        json!({}),
        json!({ "kty": "oct", "k": "c2VjcmV0" }),
        json!({ "kty": "RSA", "n": n }),
        json!({ "kty": "RSA", "n": &n[..172], "e": "AQAB" }),
        json!({ "kty": "RSA", "n": n, "e": "AQAB", "use": "enc" }),
        json!({ "kty": "RSA", "n": n, "e": "AQAB", "key_ops": ["encrypt"] }),
        json!({ "kty": "EC", "crv": "P-521", "x": x, "y": x }),
        json!({ "kty": "EC", "crv": "P-384", "x": x, "y": x }),
        json!({ "kty": "EC", "crv": "P-256", "x": x }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "AQAB" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": x }),
    ] {
        let text = json!({ "keys": [key] }).to_string();
        assert!(matches!(Jwks::parse(&text), Err(JwksError::NoneUsable)), "{text}");
    }
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": "a" });
    let mixed = json!({ "keys": [{ "kty": "new" }, 7, key] }).to_string();
    assert_eq!(Jwks::parse(&mixed).unwrap().len(), 1);
    let many = json!({ "keys": vec![key; 257] }).to_string();
    assert!(matches!(Jwks::parse(&many), Err(JwksError::TooMany)));
    assert!(matches!(Jwks::parse(&" ".repeat(crate::limits::MAX_JWKS + 1)), Err(JwksError::TooLong)));
}

proptest! {
    #[test]
    fn no_text_is_the_end(text: String, token in "[A-Za-z0-9_.-]{0,80}") {
        let _ = Jwks::parse(&text);
        let jwks = Jwks::default();
        prop_assert!(jwks.verify(&text, &expected()).is_err());
        prop_assert!(jwks.verify(&token, &expected()).is_err());
    }

    /// No bit of what was signed can be changed.
    #[test]
    fn a_token_with_one_changed_letter_is_refused(at: prop::sample::Index, letter in "[A-Za-z0-9_.-]") {
        let issuer = Issuer::new();
        let token = issuer.token(Algorithm::EdDsa, &good());
        let at = at.index(token.len());
        prop_assume!(token[at..=at] != letter);
        let changed = format!("{}{letter}{}", &token[..at], &token[at + 1..]);
        prop_assert!(issuer.jwks().verify(&changed, &expected()).is_err());
    }
}
