//! OAUTHBEARER: the client shows a token that an issuer has signed.

use bytes::Bytes;
use sasl::oauthbearer::{ACKNOWLEDGEMENT, parse, refusal};

use super::{Denied, Desk, Exchange, Failure, Heard};

/// A token that was refused. The client is told in the mechanism's own words and has the last one (RFC 7628).
pub(crate) struct Refused {
    said: String,
    /// What the log is told.
    pub(crate) why: String,
}

pub(super) async fn hear(message: &[u8], desk: &Desk) -> Result<Heard, Denied> {
    let shown = parse(message).map_err(|refused| Failure::new(None, &refused))?;
    let issuer = desk.entrance.logins.as_ref().and_then(|logins| logins.issuer.as_ref());
    let Some(issuer) = issuer else { return Err(Failure::new(None, &"no tokens are taken here").into()) };
    let claims = match issuer.verify(shown.token) {
        Ok(claims) => claims,
        Err(refused) => {
            let said = refusal("invalid_token");
            let message = Bytes::from(said.clone());
            let why = format!("the token is refused: {refused}");
            return Ok(Heard::Say { message, then: Exchange::Acknowledgement(Refused { said, why }) });
        }
    };
    let user = claims.subject;
    if let Some(wanted) = shown.on_behalf_of.filter(|wanted| *wanted != user) {
        let said = format!(
            "Authentication failed: Client requested an authorization id ({wanted}) that is different from the token's \
             principal name ({user})"
        );
        return Err(Failure::new(Some(&user), &"the token is for another user").saying(said).into());
    }
    let who = desk.identify(desk.login(&user)?).await?;
    let who = who.ok_or_else(|| Failure::new(Some(&user), &"there is no such organisation"))?;
    Ok(Heard::Known { message: Bytes::new(), who, expires_ms: Some(claims.expires_ms) })
}

impl Refused {
    pub(super) fn hear(self, message: &[u8]) -> Denied {
        Denied::Refused { said: (message == ACKNOWLEDGEMENT).then_some(self.said) }
    }
}
