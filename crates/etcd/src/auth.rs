//! Who we are to etcd.

use tokio::sync::Mutex;
use tonic::Code;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

use crate::error::{Verdict, judge};
use crate::members::with_leader;
use crate::proto::etcdserverpb::AuthenticateRequest;
use crate::proto::etcdserverpb::auth_client::AuthClient;

/// A name and a password, and what etcd has given for them.
pub(crate) struct Auth {
    name: String,
    password: String,
    /// Held while a token is fetched, so that one is fetched for all who wait.
    token: Mutex<Token>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// Has to be fetched.
    Missing,
    /// etcd asks nobody who they are.
    NotNeeded,
    /// Goes with every request.
    Held(MetadataValue<Ascii>),
}

impl Auth {
    pub(crate) fn new((name, password): (String, String)) -> Self {
        Self { name, password, token: Mutex::new(Token::Missing) }
    }

    /// What to send; fetched if there is none.
    pub(crate) async fn token(&self, channel: Channel) -> Result<Token, Verdict> {
        let mut token = self.token.lock().await;
        if *token == Token::Missing {
            *token = self.fetch(channel).await?;
        }
        Ok(token.clone())
    }

    /// Makes the next request fetch another one, unless that has happened.
    pub(crate) async fn forget(&self, used: &Token) {
        let mut token = self.token.lock().await;
        if *token == *used {
            *token = Token::Missing;
        }
    }

    async fn fetch(&self, channel: Channel) -> Result<Token, Verdict> {
        let request = AuthenticateRequest { name: self.name.clone(), password: self.password.clone() };
        match AuthClient::new(channel).authenticate(with_leader(request)).await {
            Ok(answer) => match MetadataValue::try_from(answer.into_inner().token) {
                Ok(token) => Ok(Token::Held(token)),
                Err(_) => Err(Verdict::Failed("the token it gave out is no text".to_owned())),
            },
            Err(status) if is_off(&status) => Ok(Token::NotNeeded),
            Err(status) => Err(judge(&status)),
        }
    }
}

fn is_off(status: &tonic::Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("not enabled")
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("name", &self.name).finish_non_exhaustive()
    }
}
