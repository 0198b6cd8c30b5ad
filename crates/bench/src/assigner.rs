//! How to reach an assigner, and what can be asked of it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use assigner_client::Token;
use assigner_client::proto::GroupStatus;
use assigner_client::proto::StatusRequest;
use assigner_client::proto::kafka_assigner_admin_client::KafkaAssignerAdminClient;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use clap::Args;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::dialogue::{Unreachable, resolve};
use crate::misuse::Misuse;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What it takes to be let in.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reach {
    /// Read the assigner's token from this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust those who signed certificates with one in this PEM file; needed for https
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Show the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// The certificate's key, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

/// A connection to an assigner; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Assigner {
    channel: Channel,
    token: Token,
}

/// What consumers say to it.
pub(crate) type Client = KafkaAssignerClient<InterceptedService<Channel, Token>>;

/// The address of the assigner at `url`, which may lack the scheme.
pub(crate) fn address(url: &str) -> Result<SocketAddr> {
    let place = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
    resolve(place.trim_end_matches('/'))
}

impl Assigner {
    /// Connects; fails when nobody is there.
    pub(crate) async fn connect(url: &str, reach: &Reach) -> Result<Self> {
        let address = address(url)?;
        // A connection that is made only to see whether it can be tells "nobody there" from all that may go wrong later.
        TcpStream::connect_timeout(&address, CONNECT_WITHIN).map_err(|source| Unreachable {
            whom: "an assigner",
            address,
            source,
        })?;
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let wrong = |error: tonic::transport::Error| Misuse::new(format!("{url} is not an address: {error}"));
        let mut endpoint = Endpoint::from_shared(url.clone()).map_err(wrong)?.connect_timeout(CONNECT_WITHIN);
        if url.starts_with("https://") {
            endpoint = endpoint.tls_config(reach.tls()?).context("set up TLS")?;
        }
        let channel = endpoint.connect().await.with_context(|| format!("connect to {url}"))?;
        Ok(Self { channel, token: reach.token()? })
    }

    /// To speak as a consumer.
    pub(crate) fn client(&self) -> Client {
        KafkaAssignerClient::with_interceptor(self.channel.clone(), self.token.clone())
    }

    /// What the assigner knows of the group, if there is one.
    pub(crate) async fn group(&self, name: &str) -> Result<Option<GroupStatus>> {
        let mut client = KafkaAssignerAdminClient::with_interceptor(self.channel.clone(), self.token.clone());
        let request = StatusRequest { group: name.to_owned() };
        let answer = client.status(request).await.context("ask for the status of the group")?.into_inner();
        Ok(answer.groups.into_iter().find(|group| group.group == name))
    }
}

impl Reach {
    fn token(&self) -> Result<Token> {
        let Some(file) = &self.token_file else { return Ok(Token::default()) };
        let text = String::from_utf8(read(file)?).context("read the token")?;
        // The file may be the assigner's own, which holds one token a line.
        let token =
            text.lines().map(str::trim).find(|line| !line.is_empty()).context("the file holds no token")?;
        Token::new(token).context("read the token")
    }

    fn tls(&self) -> Result<ClientTlsConfig> {
        let ca = self.ca_file.as_ref().ok_or_else(|| Misuse::new("https needs --ca-file"))?;
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        if let (Some(certificate), Some(key)) = (&self.cert_file, &self.key_file) {
            config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(config)
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use tonic::service::Interceptor;

    use super::*;

    #[test]
    fn the_first_token_of_a_file_is_shown_and_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let token_file = dir.path().join("tokens");
        fs::write(&token_file, "\n newest-token \nolder-token\n").unwrap();
        let mut token = Reach { token_file: Some(token_file), ..Reach::default() }.token().unwrap();
        assert!(!format!("{token:?}").contains("newest"), "{token:?}");
        let request = token.call(tonic::Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer newest-token");
    }
}
