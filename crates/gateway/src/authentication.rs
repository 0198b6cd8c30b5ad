//! What happens between a client's claim and its being let in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use bytes::{BufMut, Bytes, BytesMut};
use coordination::error_code::ErrorCode;
use coordination::op::Op;
use coordination::reply::{Refusal, Reply};
use rail::{ANONYMOUS, Carrier, Lost};
use sasl::{Login, Mechanism};
use tokio::time::{self, Instant};
use tracing::{debug, info, warn};
use wire::{ApiKey, Head};

use crate::connection::after;
use crate::ending::Ending;
use crate::entrance::now_ms;
use crate::login::{Denied, Desk, Exchange, Failure, Heard, Identity};

/// A step towards being let in, at work.
pub(crate) type Step = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What a step has come to.
pub(crate) enum Outcome {
    /// The client is to say more.
    Goes { answer: Answered, showing: Showing },
    /// The client is let in, or may stay.
    In { answer: Option<Answered>, carrier: Carrier, session: Option<Session> },
    /// The client is not let in.
    Out { answer: Option<Answered>, ending: Ending },
}

/// What a client is answered, and how it is counted.
pub(crate) struct Answered {
    pub(crate) frame: Bytes,
    /// `None` for what has no name in Kafka's protocol.
    pub(crate) api: Option<ApiKey>,
    pub(crate) error: Option<ErrorCode>,
}

/// A client that is about to show who it is.
pub(crate) struct Showing {
    pub(crate) mechanism: Mechanism,
    pub(crate) exchange: Exchange,
    /// Whether its messages come without Kafka's headers, as after version 0 of SaslHandshake.
    pub(crate) is_bare: bool,
    /// Whether it has been let in before, and shows again who it is (KIP-368).
    pub(crate) is_again: bool,
}

/// A login that ends.
pub(crate) struct Session {
    pub(crate) mechanism: Mechanism,
    pub(crate) ends: Instant,
    /// When the client last began to show again who it is.
    pub(crate) renewed: Option<Instant>,
}

/// Who is at an entrance where nobody is asked for a password.
pub(crate) enum Visitor {
    /// Nobody knows.
    Unknown,
    /// The one that its certificate names, or why that is nobody.
    Certified(Result<Login, String>),
}

/// Lets a client in that has nothing to say about itself.
pub(crate) async fn welcome(desk: Desk, visitor: Visitor) -> Outcome {
    let who = match visitor {
        Visitor::Certified(Ok(login)) => {
            let name = login.user.clone();
            match desk.identify(login).await {
                Ok(Some(who)) => Some(who),
                Ok(None) => return stranger(&desk, &format!("{name:?}: there is no such organisation")),
                Err(lost) => return lost_on_the_way(lost),
            }
        }
        Visitor::Certified(Err(why)) => return stranger(&desk, &why),
        Visitor::Unknown => match &desk.entrance.org {
            None => None,
            org => {
                let login = Login { org: org.clone(), user: String::new() };
                match desk.identify(login).await {
                    Ok(Some(Identity { org, .. })) => Some(Identity { org, principal: Arc::from(ANONYMOUS) }),
                    Ok(None) => return stranger(&desk, "there is no such organisation as the listener's"),
                    Err(lost) => return lost_on_the_way(lost),
                }
            }
        },
    };
    match enter(desk, who).await {
        Ok(carrier) => Outcome::In { answer: None, carrier, session: None },
        Err(out) => out,
    }
}

/// A client whose certificate makes it nobody here.
fn stranger(desk: &Desk, why: &str) -> Outcome {
    desk.shared.metrics.failed_login("SSL");
    let (listener, host, why) = (&*desk.entrance.name, desk.carrier.host(), shortened(why));
    match desk.entrance.failed_logins.is_due(Clock::now()) {
        Some(unsaid) => warn!(listener, %host, why, unsaid, "a client is nobody here"),
        None => debug!(listener, %host, why, "a client is nobody here"),
    }
    Outcome::Out { answer: None, ending: Ending::Unknown }
}

fn lost_on_the_way(lost: Lost) -> Outcome {
    Outcome::Out { answer: None, ending: lost.into() }
}

/// Takes a place among the connections of the client's organisation.
async fn enter(desk: Desk, who: Option<Identity>) -> Result<Carrier, Outcome> {
    let Desk { shared, entrance, mut carrier } = desk;
    if let Some(Identity { org, principal }) = who {
        carrier.belongs_to(org, principal);
    }
    match shared.rail.call(&carrier, Op::Enter).reply().await {
        Ok(Reply::Enter(None)) => Ok(carrier),
        Ok(Reply::Enter(Some(refusal))) => {
            shared.metrics.connections_denied.inc();
            if let Some(unsaid) = entrance.denials.is_due(Clock::now()) {
                let (listener, host, principal) = (&*entrance.name, carrier.host(), &**carrier.principal());
                let why = refusal.message.as_deref().unwrap_or(refusal.code.name());
                warn!(listener, %host, principal, why, unsaid, "the broker does not let a client in");
            }
            Err(Outcome::Out { answer: None, ending: Ending::Denied })
        }
        // No broker answers otherwise; nobody is let in by one that does.
        Ok(_) => Err(lost_on_the_way(Lost)),
        Err(lost) => Err(lost_on_the_way(lost)),
    }
}

/// Hears one message of a client; `head` is that of the SaslAuthenticate that it came in.
pub(crate) async fn hear(desk: Desk, showing: Showing, message: Bytes, head: Option<Head>) -> Outcome {
    let Showing { mechanism, exchange, is_bare, is_again } = showing;
    let (message, who, expires_ms) = match exchange.hear(&message, &desk).await {
        Ok(Heard::Say { message, then }) => {
            if let Exchange::Acknowledgement(refused) = &then {
                // Not with the client's last word, which who only tries tokens would not stay for.
                delay(&desk, mechanism.name(), None, &refused.why).await;
            }
            let answer = answered(head.as_ref(), Ok((message, Duration::ZERO)));
            let showing = Showing { mechanism, exchange: then, is_bare, is_again };
            return Outcome::Goes { answer, showing };
        }
        Ok(Heard::Known { message, who, expires_ms }) => (message, who, expires_ms),
        Err(Denied::Lost(lost)) => return lost_on_the_way(lost),
        Err(Denied::Refused { said }) => return refused(mechanism, is_again, said, head),
        Err(Denied::Failed(failure)) => return fail(&desk, mechanism, is_again, failure, head).await,
    };
    let had = Identity { org: desk.carrier.org(), principal: Arc::clone(desk.carrier.principal()) };
    if is_again && who != had {
        let named = |who: &Identity| who.principal.replacen(':', ".", 1);
        let said = format!(
            "Cannot change principals during re-authentication from {}: {}",
            named(&had),
            named(&who)
        );
        let failure = Failure { why: said.clone(), said: Some(said), user: None };
        return fail(&desk, mechanism, is_again, failure, head).await;
    }
    desk.shared.metrics.succeeded_login(mechanism.name());
    let lifetime = lifetime(&desk, expires_ms);
    debug!(principal = &*who.principal, host = %desk.carrier.host(), %mechanism, is_again, "a client showed who it is");
    let carrier = if is_again {
        desk.carrier
    } else {
        match enter(desk, Some(who)).await {
            Ok(carrier) => carrier,
            Err(out) => return out,
        }
    };
    let answer = answered(head.as_ref(), Ok((message, lifetime.unwrap_or_default())));
    let session = lifetime.map(|lifetime| Session {
        mechanism,
        ends: after(Instant::now(), lifetime),
        renewed: is_again.then(Instant::now),
    });
    Outcome::In { answer: Some(answer), carrier, session }
}

/// How long a login holds, if not for ever.
fn lifetime(desk: &Desk, expires_ms: Option<i64>) -> Option<Duration> {
    let max_reauth = desk.entrance.logins.as_ref().and_then(|logins| logins.max_reauth);
    // Zero would be for ever.
    let left = |expires_ms: i64| u64::try_from(expires_ms.saturating_sub(now_ms())).unwrap_or(0).max(1);
    let left = expires_ms.map(|expires_ms| Duration::from_millis(left(expires_ms)));
    [max_reauth, left].into_iter().flatten().min()
}

/// Refuses a client, after a while.
async fn fail(
    desk: &Desk,
    mechanism: Mechanism,
    is_again: bool,
    failure: Failure,
    head: Option<Head>,
) -> Outcome {
    let Failure { said, user, why } = failure;
    delay(desk, mechanism.name(), user.as_deref(), &why).await;
    refused(mechanism, is_again, said, head)
}

/// Tells a client that it is not let in.
fn refused(mechanism: Mechanism, is_again: bool, said: Option<String>, head: Option<Head>) -> Outcome {
    let text = if is_again { "re-authentication" } else { "authentication" };
    let said = said.unwrap_or_else(|| {
        format!(
            "Authentication failed during {text} due to invalid credentials with SASL mechanism {mechanism}"
        )
    });
    let refusal = Refusal::new(ErrorCode::SaslAuthenticationFailed, said);
    // After version 0 of SaslHandshake there is no answer that would say so.
    let answer = head.map(|head| answered(Some(&head), Err(refusal)));
    Outcome::Out { answer, ending: Ending::Unknown }
}

/// Counts and logs a failure and makes the client wait for its answer.
pub(crate) async fn delay(desk: &Desk, mechanism: &'static str, user: Option<&str>, why: &str) {
    let Desk { shared, entrance, carrier } = desk;
    shared.metrics.failed_login(mechanism);
    let (listener, host) = (&*entrance.name, carrier.host());
    let (user, why) = (user.map(shortened), shortened(why));
    match entrance.failed_logins.is_due(Clock::now()) {
        Some(unsaid) => {
            info!(listener, %host, mechanism, user, why, unsaid, "a client did not show who it is");
        }
        None => debug!(listener, %host, mechanism, user, why, "a client did not show who it is"),
    }
    let delay = shared.options.failed_authentication_delay;
    time::sleep(shared.penalties.note(carrier.host(), delay, Clock::now())).await;
}

/// The answer to SaslAuthenticate, or the bare message where there is none.
fn answered(head: Option<&Head>, result: Result<(Bytes, Duration), Refusal>) -> Answered {
    let error = result.as_ref().err().map(|refusal| refusal.code);
    match (head, result) {
        (Some(head), result) => {
            let frame = wire::encode_sasl_authenticate(head, result).into_bytes();
            Answered { frame, api: Some(head.api), error }
        }
        (None, result) => {
            let message = result.map(|(message, _)| message).unwrap_or_default();
            let mut frame = BytesMut::with_capacity(4 + message.len());
            frame.put_i32(i32::try_from(message.len()).expect("no mechanism says this much"));
            frame.extend_from_slice(&message);
            Answered { frame: frame.freeze(), api: None, error }
        }
    }
}

/// As much of what a client said as belongs into a log.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(200).map_or(text, |(end, _)| &text[..end])
}
