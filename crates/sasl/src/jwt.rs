//! Tokens (RFC 7519) signed by one of a set of keys (RFC 7515, RFC 7517).
//!
//! Only signatures of which we hold nothing but the public half are accepted: not `none`, and no HMAC, where whoever
//! checks could also sign.

mod keys;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::base64;
use crate::limits::{MAX_TOKEN, MAX_USER};

pub use keys::{Algorithm, Jwks, JwksError};

/// What a token must say to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// Whom the token may be for: one of these must be among its audiences. As RFC 7519 asks (and Kafka does), a token
    /// that is for someone is refused where nobody is expected.
    pub audience: Vec<String>,
    /// Who must have issued it, if that matters.
    pub issuer: Option<String>,
    /// The claim that names the user; usually `sub`.
    pub subject_claim: String,
    /// By how much the issuer's clock may differ from ours.
    pub clock_skew: Duration,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// What a token says that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Who shows it.
    pub subject: String,
    /// When it ends, in milliseconds since 1970, by the issuer's clock.
    pub expires_ms: i64,
}

impl Jwks {
    /// Checks that `token` was signed by one of the keys and says what is expected.
    pub fn verify(&self, token: &str, expected: &Expectations) -> Result<Claims, Refused> {
        if token.len() > MAX_TOKEN {
            return Err(Refused::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Refused::Malformed)?;
        let header: Header = json(header)?;
        if header.crit.is_some() {
            return Err(Refused::Critical);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(Refused::Algorithm)?;
        let signature = base64::decode_url(signature).ok_or(Refused::Malformed)?;
        self.check_signature(algorithm, header.kid.as_deref(), signed.as_bytes(), &signature)?;
        // What is not signed is not read.
        check_claims(&json(payload)?, expected)
    }

    fn check_signature(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused> {
        let mut fitting = self.fitting(algorithm, kid).peekable();
        if fitting.peek().is_none() {
            return Err(Refused::UnknownKey);
        }
        let right = fitting.any(|key| key.verify(algorithm, signed, signature));
        if right { Ok(()) } else { Err(Refused::Signature) }
    }
}

/// What a token says about its signature. Where a key is from (`jwk`, `jku`, `x5u`, `x5c`) is not for the token to say.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

fn check_claims(claims: &Map<String, Value>, expected: &Expectations) -> Result<Claims, Refused> {
    let skew_ms = i64::try_from(expected.clock_skew.as_millis()).unwrap_or(i64::MAX);
    let expires_ms = time_ms(claims, "exp")?.ok_or(Refused::NoExpiry)?;
    if expected.now_ms >= expires_ms.saturating_add(skew_ms) {
        return Err(Refused::Expired);
    }
    for claim in ["nbf", "iat"] {
        if time_ms(claims, claim)?.is_some_and(|from| expected.now_ms.saturating_add(skew_ms) < from) {
            return Err(Refused::TooEarly);
        }
    }
    if let Some(issuer) = &expected.issuer
        && claims.get("iss").and_then(Value::as_str) != Some(issuer)
    {
        return Err(Refused::Issuer);
    }
    if !audience_fits(claims.get("aud"), &expected.audience) {
        return Err(Refused::Audience);
    }
    let subject = claims.get(&expected.subject_claim).and_then(Value::as_str);
    let subject = subject.filter(|subject| !subject.is_empty() && subject.len() <= MAX_USER);
    Ok(Claims { subject: subject.ok_or(Refused::Subject)?.to_owned(), expires_ms })
}

fn audience_fits(claimed: Option<&Value>, expected: &[String]) -> bool {
    let is_expected = |one: &Value| one.as_str().is_some_and(|one| expected.iter().any(|it| it == one));
    match claimed {
        None | Some(Value::Null) => expected.is_empty(),
        Some(Value::Array(several)) => several.iter().any(is_expected),
        Some(one) => is_expected(one),
    }
}

/// A claim in seconds since 1970, which may have a fraction.
fn time_ms(claims: &Map<String, Value>, claim: &str) -> Result<Option<i64>, Refused> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    if let Some(seconds) = value.as_i64() {
        return seconds.checked_mul(1000).map(Some).ok_or(Refused::Malformed);
    }
    let ms = value.as_f64().map(|seconds| seconds * 1000.0).filter(|ms| ms.abs() < 1e15);
    #[expect(clippy::cast_possible_truncation, reason = "it was just checked to be in range")]
    let ms = ms.map(|ms| ms as i64);
    ms.map(Some).ok_or(Refused::Malformed)
}

fn json<T: for<'de> Deserialize<'de>>(part: &str) -> Result<T, Refused> {
    let bytes = base64::decode_url(part).ok_or(Refused::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| Refused::Malformed)
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not a signed token, or longer than any that is real.
    #[error("it is not a signed token")]
    Malformed,
    /// It says that something must be understood that is not.
    #[error("it has critical headers that are not known")]
    Critical,
    /// It is not signed, or in a way that is not accepted.
    #[error("it is not signed by an algorithm that is accepted")]
    Algorithm,
    /// There is no key for it.
    #[error("it is signed by a key that is not known")]
    UnknownKey,
    /// The signature is not by the key that it names.
    #[error("its signature is wrong")]
    Signature,
    /// It would hold for ever.
    #[error("it does not say when it expires")]
    NoExpiry,
    /// It does not hold any more.
    #[error("it has expired")]
    Expired,
    /// It does not hold yet.
    #[error("it is not valid yet")]
    TooEarly,
    /// It is by another issuer.
    #[error("it is not by the expected issuer")]
    Issuer,
    /// It is for someone else.
    #[error("it is not for the expected audience")]
    Audience,
    /// It does not say whose it is.
    #[error("it names no user")]
    Subject,
}

#[cfg(test)]
mod tests;
