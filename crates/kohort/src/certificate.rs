//! What is wrong with a listener's certificate, before the first client finds out.

use std::fs;
use std::path::Path;

use sasl::base64;
use sasl::principal::Validity;

use crate::group_command::moment::show_moment;

/// What clients will not like of the certificate in a PEM file, which is the first one in it, at this time. Of a file that
/// holds none whoever opens it has more to say.
pub(crate) fn warning(keystore: &Path, now_ms: i64) -> Option<String> {
    let Validity { begins_ms, ends_ms, .. } = validity(keystore)?;
    let keystore = keystore.display();
    if now_ms > ends_ms {
        return Some(format!("{keystore}: the certificate has expired at {}", show_moment(ends_ms)));
    }
    (now_ms < begins_ms)
        .then(|| format!("{keystore}: the certificate is not valid before {}", show_moment(begins_ms)))
}

fn validity(keystore: &Path) -> Option<Validity> {
    let text = fs::read_to_string(keystore).ok()?;
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    Validity::of(&base64::decode(&body.split_whitespace().collect::<String>())?).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// For a day, by `openssl req -x509`.
    const ONE_DAY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBLDCB36ADAgECAhQ1ZF63voeQNFsy9D8VRtKw6Ag7yTAFBgMrZXAwDDEKMAgG
A1UEAwwBYTAeFw0yNjExMTYxMTQyMjJaFw0yNjExMTcxMTQyMjJaMAwxCjAIBgNV
BAMMAWEwKjAFBgMrZXADIQBRUe2B5+Xm2UPXCftO6Befio79vnUTUsJfDCBgav9A
46NTMFEwHQYDVR0OBBYEFL+uLucZExtFQqbCgRTuAXaAVeXUMB8GA1UdIwQYMBaA
FL+uLucZExtFQqbCgRTuAXaAVeXUMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EA
VDjqtbstSw2XVXIAZ3Vebcys4M7tcJkmUzO5FlBf4Q7NMVO4GoiIqW9BqZEEEKUA
pn+2hI65Y3WsyrZkWZm4Dw==
-----END CERTIFICATE-----";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_certificate_that_does_not_hold_now_is_told() {
        let file = file(ONE_DAY);
        let Validity { begins_ms, ends_ms, .. } = validity(file.path()).unwrap();
        assert_eq!(ends_ms - begins_ms, 24 * 60 * 60 * 1000);
        assert_eq!(warning(file.path(), begins_ms), None);
        assert_eq!(warning(file.path(), ends_ms), None);
        let late = warning(file.path(), ends_ms + 1).unwrap();
        let expected = format!("the certificate has expired at {}", show_moment(ends_ms));
        assert!(late.ends_with(&expected), "{late}");
        let early = warning(file.path(), begins_ms - 1).unwrap();
        assert!(early.contains("is not valid before"), "{early}");
    }

    #[test]
    fn what_is_no_certificate_is_left_to_whoever_opens_it() {
        let cut = ONE_DAY.replace("MII", "");
        for text in ["", "-----BEGIN CERTIFICATE-----", &cut] {
            let file = file(text);
            assert_eq!(warning(file.path(), 0), None, "{text}");
        }
        assert_eq!(warning(Path::new("/nowhere/server.pem"), 0), None);
    }
}
