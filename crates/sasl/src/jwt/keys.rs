//! The keys of an issuer, as it publishes them.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use crate::base64;
use crate::limits::{MAX_JWKS, MAX_KEYS};

/// The public keys that tokens are verified with.
#[derive(Clone, Debug, Default)]
pub struct Jwks {
    keys: Vec<Key>,
}

impl Jwks {
    /// Reads a set of keys (RFC 7517, section 5). Keys that are not for signatures, or of kinds that are not known, are
    /// passed over, as the RFC asks; a set of which none is left is an error.
    pub fn parse(text: &str) -> Result<Self, JwksError> {
        if text.len() > MAX_JWKS {
            return Err(JwksError::TooLong);
        }
        let set: Set = serde_json::from_str(text).map_err(JwksError::Malformed)?;
        if set.keys.len() > MAX_KEYS {
            return Err(JwksError::TooMany);
        }
        // One by one, so that a key of a kind yet to be invented does not spoil the others.
        let keys: Vec<_> =
            set.keys.into_iter().filter_map(|key| Key::read(serde_json::from_value(key).ok()?)).collect();
        if keys.is_empty() {
            return Err(JwksError::NoneUsable);
        }
        Ok(Self { keys })
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none; never true of a set that was read.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that a token signed by `algorithm` may be by. A token that names no key can be by the only one of its
    /// kind; where there are several it has to say which.
    pub(super) fn fitting(&self, algorithm: Algorithm, kid: Option<&str>) -> impl Iterator<Item = &Key> {
        let of_kind = move |key: &&Key| key.fits(algorithm);
        let unnamed_is_clear = kid.is_some() || self.keys.iter().filter(of_kind).count() == 1;
        self.keys
            .iter()
            .filter(of_kind)
            .filter(move |key| unnamed_is_clear && (kid.is_none() || key.kid.as_deref() == kid))
    }
}

/// Why a file gives no keys.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// Longer than any that is real.
    #[error("the set of keys is longer than {MAX_JWKS} bytes")]
    TooLong,
    /// More keys than any issuer has.
    #[error("the set has more than {MAX_KEYS} keys")]
    TooMany,
    /// It is not JSON with `keys` in it.
    #[error("not a set of keys in JSON: {0}")]
    Malformed(serde_json::Error),
    /// No key in it can verify a token.
    #[error(
        "the set has no key that tokens can be verified with (RSA from 2048 bits, P-256, P-384 or Ed25519)"
    )]
    NoneUsable,
}

/// How a token can be signed (RFC 7518, section 3; RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name that tokens use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// One key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    kid: Option<String>,
    /// The only algorithm that it is for, if its issuer says so.
    alg: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The points are uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    fn read(key: Jwk) -> Option<Self> {
        let for_signatures = key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && key.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let bytes = |text: &Option<String>| base64::decode_url(text.as_deref()?);
        let material = match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) => {
                let [n, e] = [bytes(&key.n)?, bytes(&key.e)?].map(|number| without_leading_zeros(&number));
                // What ring would refuse with each signature is better refused with the file.
                (256..=1024).contains(&n.len()).then_some(Material::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => Material::P256(point(&bytes(&key.x)?, &bytes(&key.y)?, 32)?),
            ("EC", Some("P-384")) => Material::P384(point(&bytes(&key.x)?, &bytes(&key.y)?, 48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&key.x).filter(|public| public.len() == 32)?),
            _ => return None,
        };
        Some(Self { kid: key.kid, alg: key.alg, material })
    }

    /// Whether tokens signed by `algorithm` can be by this key.
    fn fits(&self, algorithm: Algorithm) -> bool {
        let of_kind = match algorithm {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => matches!(self.material, Material::Rsa { .. }),
            Algorithm::Es256 => matches!(self.material, Material::P256(_)),
            Algorithm::Es384 => matches!(self.material, Material::P384(_)),
            Algorithm::EdDsa => matches!(self.material, Material::Ed25519(_)),
        };
        of_kind && self.alg.as_deref().is_none_or(|alg| alg == algorithm.name())
    }

    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { n, e } => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            Material::P256(key) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            Material::P384(key) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, key).verify(message, signature)
            }
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok() && self.fits(algorithm)
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn without_leading_zeros(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}

/// A point on a curve as ring wants it: its two coordinates, each of the curve's length.
fn point(x: &[u8], y: &[u8], length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], x, y].concat())
}
