//! The subject of a certificate, written as Java does.

use super::der::{Element, INTEGER, OBJECT_IDENTIFIER, Reader, SEQUENCE, SET, dotted};
use crate::limits::MAX_CERTIFICATE;

/// The subject of a certificate in the form of RFC 2253, as Java's `X500Principal.getName()` writes it, and as Kafka's
/// rules and ACLs therefore expect it: `CN=Duke,OU=JavaSoft,O=Sun Microsystems,C=US`.
///
/// One thing differs: text that is not UTF-8, of which Java makes question marks, is written in hexadecimal, so that
/// two names never look like one.
pub fn subject(certificate: &[u8]) -> Result<String, NotACertificate> {
    if certificate.len() > MAX_CERTIFICATE {
        return Err(NotACertificate);
    }
    name_in(certificate).and_then(written).ok_or(NotACertificate)
}

/// The bytes are no certificate, or one whose subject cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a certificate whose subject can be read")]
pub struct NotACertificate;

/// The parts of the subject (RFC 5280, section 4.1).
fn name_in(certificate: &[u8]) -> Option<Reader<'_>> {
    let certificate = Reader::new(certificate).expect(SEQUENCE)?;
    let mut fields = Reader::new(Reader::new(certificate).expect(SEQUENCE)?);
    const VERSION: u8 = 0xa0;
    let mut serial_number = fields.next()?;
    if serial_number.tag == VERSION {
        serial_number = fields.next()?;
    }
    let (_signature, _issuer, _validity) =
        (fields.expect(SEQUENCE)?, fields.expect(SEQUENCE)?, fields.expect(SEQUENCE)?);
    let subject = fields.expect(SEQUENCE)?;
    (serial_number.tag == INTEGER).then(|| Reader::new(subject))
}

/// The parts from the last to the first.
fn written(mut name: Reader<'_>) -> Option<String> {
    let mut parts = Vec::new();
    while !name.is_at_end() {
        let mut several = Reader::new(name.expect(SET)?);
        let mut part = Vec::new();
        while !several.is_at_end() {
            let mut attribute = Reader::new(several.expect(SEQUENCE)?);
            let kind = attribute.expect(OBJECT_IDENTIFIER)?;
            part.push(attribute_written(kind, attribute.next()?)?);
        }
        parts.push(part.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

fn attribute_written(kind: &[u8], value: Element<'_>) -> Option<String> {
    let text = std::str::from_utf8(value.content).ok().filter(|_| is_text(value.tag));
    Some(match (keyword(kind), text) {
        (Some(keyword), Some(text)) => format!("{keyword}={}", escaped(text)),
        (Some(keyword), None) => format!("{keyword}={}", in_hexadecimal(value.whole)),
        (None, _) => format!("{}={}", dotted(kind)?, in_hexadecimal(value.whole)),
    })
}

/// The kinds that have a name in RFC 2253.
fn keyword(kind: &[u8]) -> Option<&'static str> {
    Some(match kind {
        [0x55, 0x04, 0x03] => "CN",
        [0x55, 0x04, 0x06] => "C",
        [0x55, 0x04, 0x07] => "L",
        [0x55, 0x04, 0x08] => "ST",
        [0x55, 0x04, 0x09] => "STREET",
        [0x55, 0x04, 0x0a] => "O",
        [0x55, 0x04, 0x0b] => "OU",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19] => "DC",
        _ => return None,
    })
}

/// Whether Java takes a value with this tag for text: UTF8String, PrintableString, TeletexString, IA5String,
/// GeneralString and BMPString. It reads all of them as UTF-8, even the last, which is not.
fn is_text(tag: u8) -> bool {
    matches!(tag, 0x0c | 0x13 | 0x14 | 0x16 | 0x1b | 0x1e)
}

fn escaped(text: &str) -> String {
    let is_space = |character: &char| matches!(character, ' ' | '\r');
    let leading = text.chars().take_while(is_space).count();
    let trailing = text.chars().rev().take_while(is_space).count();
    let length = text.chars().count();
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        match character {
            '\0' => escaped.push_str("\\00"),
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => escaped.extend(['\\', character]),
            _ if at < leading || at >= length - trailing => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}

fn in_hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]));
    std::iter::once('#').chain(digits).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::string::Ia5String;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    const CN: &[u8] = &[0x55, 4, 3];

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u16::try_from(content.len()).unwrap();
        let [high, low] = length.to_be_bytes();
        let mut bytes = vec![tag];
        match length {
            0..0x80 => bytes.push(low),
            0x80..0x100 => bytes.extend([0x81, low]),
            _ => bytes.extend([0x82, high, low]),
        }
        bytes.extend(content);
        bytes
    }

    fn attribute(kind: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[&element(OBJECT_IDENTIFIER, &[kind]), &element(tag, &[value])])
    }

    /// The name of parts, each of which has one attribute or several.
    fn name(parts: &[&[Vec<u8>]]) -> Option<String> {
        let parts: Vec<_> = parts.iter().map(|part| element(SET, &[&part.concat()])).collect();
        written(Reader::new(&parts.concat()))
    }

    fn common_name(tag: u8, value: &[u8]) -> String {
        name(&[&[attribute(CN, tag, value)]]).unwrap()
    }

    fn certificate(name: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut distinguished_name = DistinguishedName::new();
        for (kind, value) in name {
            distinguished_name.push(kind.clone(), value.clone());
        }
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = distinguished_name;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_subject_of_a_certificate_is_written_from_its_end() {
        let der = certificate(&[
            (DnType::CountryName, "US".into()),
            (DnType::StateOrProvinceName, "Ohio".into()),
            (DnType::LocalityName, "Columbus".into()),
            (DnType::OrganizationName, "Sun, Inc.".into()),
            (DnType::OrganizationalUnitName, "Service Users".into()),
            (DnType::CommonName, "Zoë".into()),
        ]);
        let text = "CN=Zoë,OU=Service Users,O=Sun\\, Inc.,L=Columbus,ST=Ohio,C=US";
        assert_eq!(subject(&der).as_deref(), Ok(text));
        let domain = DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]);
        let user = DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]);
        let mail = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        let der = certificate(&[
            (domain, DnValue::Ia5String(Ia5String::try_from("example").unwrap())),
            (user, "duke".into()),
            (mail, DnValue::Ia5String(Ia5String::try_from("a@b").unwrap())),
        ]);
        let text = "1.2.840.113549.1.9.1=#1603614062,UID=duke,DC=example";
        assert_eq!(subject(&der).as_deref(), Ok(text));
        assert_eq!(subject(&certificate(&[])).as_deref(), Ok(""));
    }

    #[test]
    fn kinds_and_values_are_written_as_java_17_does() {
        let duke = |kind| name(&[&[attribute(kind, 0x13, b"x y")]]).unwrap();
        assert_eq!(duke(&[0x55, 4, 9]), "STREET=x y");
        assert_eq!(duke(&[0x55, 4, 4]), "2.5.4.4=#1303782079");
        assert_eq!(duke(&[0x88, 0x37]), "2.999=#1303782079");
        for tag in [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e] {
            assert_eq!(common_name(tag, b"ab"), "CN=ab");
        }
        for (tag, text) in [(0x12, "#12026162"), (0x1a, "#1a026162"), (0x1c, "#1c026162"), (4, "#04026162")] {
            assert_eq!(common_name(tag, b"ab"), format!("CN={text}"));
        }
        assert_eq!(common_name(0x1e, b"\0a\0b"), "CN=\\00a\\00b");
        assert_eq!(common_name(0x30, &[2, 1, 5]), "CN=#3003020105");
        let organisation = attribute(&[0x55, 4, 0x0a], 0x0c, b"o");
        let several = [attribute(&[0x55, 4, 0x0b], 0x0c, b"ou"), attribute(CN, 0x0c, b"cn")];
        assert_eq!(name(&[&several, &[organisation]]).as_deref(), Some("O=o,OU=ou+CN=cn"));
    }

    #[test]
    fn characters_are_escaped_as_java_17_does() {
        for (value, text) in [
            ("", ""),
            ("  a  ", "\\ \\ a\\ \\ "),
            (" ", "\\ "),
            ("   ", "\\ \\ \\ "),
            ("#a", "\\#a"),
            ("a#b", "a\\#b"),
            ("a=b", "a\\=b"),
            ("a,b+c\"d\\e<f>g;h", "a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h"),
            ("é ü 漢 😀", "é ü 漢 😀"),
            ("\r a \r\n", "\\\r\\ a \r\n"),
            ("a\0b", "a\\00b"),
            ("a/b", "a/b"),
            ("\\ ", "\\\\\\ "),
            (" #", "\\ \\#"),
        ] {
            assert_eq!(common_name(0x0c, value.as_bytes()), format!("CN={text}"), "{value:?}");
        }
    }

    #[test]
    fn what_is_not_utf8_is_written_in_hexadecimal() {
        assert_eq!(common_name(0x0c, b"a\xffb"), "CN=#0c0361ff62");
        assert_eq!(common_name(0x14, b"a\xe9b"), "CN=#140361e962");
    }

    #[test]
    fn names_that_are_cut_or_crooked_are_refused() {
        for bytes in [
            &[0x30, 0][..],
            &[0x31, 1],
            &element(SET, &[&[5, 0]]),
            &element(SET, &[&element(SEQUENCE, &[])]),
            &element(SET, &[&element(SEQUENCE, &[&element(OBJECT_IDENTIFIER, &[CN])])]),
            &element(SET, &[&attribute(&[0x80, 1], 0x0c, b"x")]),
        ] {
            assert_eq!(written(Reader::new(bytes)), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_certificate_that_ends_anywhere_before_its_subject_does_is_refused() {
        let der = certificate(&[(DnType::CommonName, "duke".into())]);
        for end in 0..der.len() {
            assert_eq!(subject(&der[..end]), Err(NotACertificate));
        }
        assert_eq!(subject(&vec![0x30; MAX_CERTIFICATE + 1]), Err(NotACertificate));
    }

    proptest! {
        #[test]
        fn no_bytes_are_the_end(bytes: Vec<u8>) {
            let _ = subject(&bytes);
        }

        #[test]
        fn no_certificate_with_wrong_bytes_is_the_end(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut der = certificate(&[(DnType::CommonName, "duke".into())]);
            for (at, byte) in changes {
                let at = at.index(der.len());
                der[at] = byte;
            }
            let _ = subject(&der);
        }
    }
}
