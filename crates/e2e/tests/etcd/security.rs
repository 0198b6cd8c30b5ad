//! Names and passwords, and TLS.

use std::time::Duration;

use etcd::{Etcd, EtcdError, Options, Tls, Update};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::world::{Reflection, connect, node, put, within, without_fsync, write};

/// Users `root` and `limited`, the latter with `/mine/` alone.
fn lock(node: &e2e::etcd::Etcd) {
    let end = "/mine0";
    let key = |text: &str| base64(text.as_bytes());
    let permission = format!(
        r#"{{"name":"limited","perm":{{"permType":"READWRITE","key":"{}","range_end":"{}"}}}}"#,
        key("/mine/"),
        key(end)
    );
    for (path, json) in [
        ("user/add", r#"{"name":"root","password":"secret"}"#),
        ("user/grant", r#"{"user":"root","role":"root"}"#),
        ("user/add", r#"{"name":"limited","password":"less"}"#),
        ("role/add", r#"{"name":"limited"}"#),
        ("role/grant", &permission),
        ("user/grant", r#"{"user":"limited","role":"limited"}"#),
        ("enable", "{}"),
    ] {
        node.post(&format!("/v3/auth/{path}"), json).unwrap();
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(DIGITS[bits >> (18 - 6 * place) & 63]));
        }
    }
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

fn as_user(node: &e2e::etcd::Etcd, name: &str, password: &str) -> Etcd {
    let user = Some((name.to_owned(), password.to_owned()));
    Etcd::new(Options { endpoints: vec![node.url()], user, ..Options::default() }).unwrap()
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_refused() {
    let node = node();
    lock(&node);
    let error = as_user(&node, "root", "wrong").revision().await.unwrap_err();
    assert!(matches!(error, EtcdError::AuthRefused(_)) && !error.is_transient(), "{error}");
    let error = connect(&[node.url()]).get("/mine/a").await.unwrap_err();
    assert!(matches!(error, EtcdError::AuthRefused(_)), "{error}");
    write(&as_user(&node, "root", "secret"), &[put("/x", "")]).await;
}

#[tokio::test]
async fn a_user_of_one_prefix_can_do_all_we_need_there() {
    let node = node();
    lock(&node);
    let etcd = as_user(&node, "limited", "less");
    let mut mirror = etcd.mirror("/mine/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    let lease = etcd.grant(Duration::from_secs(30)).await.unwrap();
    write(&etcd, &[put("/mine/a", "1")]).await;
    etcd.revision().await.unwrap();
    assert!(etcd.keep_alive(lease).await.unwrap().is_some());
    etcd.revoke(lease).await.unwrap();
    reflection.is_the_same_as(&mut mirror, &etcd, "/mine/").await;

    let error = etcd.get("/yours/a").await.unwrap_err();
    assert!(matches!(error, EtcdError::Denied(_)), "{error}");
    let mut foreign = etcd.mirror("/yours/");
    let update = within("a refusal", foreign.next()).await;
    assert!(matches!(update, Update::Interrupted(EtcdError::Denied(_))), "{update:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_etcd_has_forgotten_is_renewed() {
    let mut node = node();
    lock(&node);
    let etcd = as_user(&node, "root", "secret");
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    write(&etcd, &[put("/m/a", "1")]).await;
    // Tokens live in memory.
    node.kill().unwrap();
    node.restart().unwrap();
    write(&etcd, &[put("/m/a", "2")]).await;
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
}

#[tokio::test]
async fn a_password_does_no_harm_where_none_is_wanted() {
    let node = node();
    write(&as_user(&node, "root", "secret"), &[put("/x", "")]).await;
}

struct Certificates {
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { ca }
    }

    /// A certificate and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.ca).unwrap().pem(), key.serialize_pem())
    }

    fn node(&self, name: &str) -> e2e::etcd::Etcd {
        let (certificate, key) = self.issue(name);
        let tls = Some(e2e::etcd::Tls { ca: self.ca.pem(), certificate, key });
        e2e::etcd::Etcd::start(&e2e::etcd::Options { tls, ..without_fsync() }).unwrap()
    }

    fn tls(&self) -> Tls {
        let (certificate, key) = self.issue("client");
        Tls {
            ca: self.ca.pem().into_bytes(),
            identity: Some((certificate.into_bytes(), key.into_bytes())),
            domain: None,
        }
    }
}

fn over_tls(node: &e2e::etcd::Etcd, tls: Tls) -> Etcd {
    let timeout = Duration::from_secs(6);
    Etcd::new(Options { endpoints: vec![node.url()], tls: Some(tls), timeout, ..Options::default() }).unwrap()
}

#[tokio::test]
async fn both_sides_show_their_certificates() {
    let certificates = Certificates::new();
    let node = certificates.node("127.0.0.1");
    let etcd = over_tls(&node, certificates.tls());
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    write(&etcd, &[put("/m/a", "1")]).await;
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;

    // Of someone else's authority.
    let error = over_tls(&node, Certificates::new().tls()).revision().await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    // Without one of its own.
    let error = over_tls(&node, Tls { identity: None, ..certificates.tls() }).revision().await.unwrap_err();
    assert!(matches!(error, EtcdError::Failed { .. } | EtcdError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn the_name_in_the_certificate_may_be_another_than_that_of_the_endpoint() {
    let certificates = Certificates::new();
    let node = certificates.node("etcd.internal");
    let error = over_tls(&node, certificates.tls()).revision().await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let tls = Tls { domain: Some("etcd.internal".to_owned()), ..certificates.tls() };
    over_tls(&node, tls).revision().await.unwrap();
}
