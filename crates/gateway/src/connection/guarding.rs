//! A connection whose client is not let in yet, or not for ever.

use std::sync::Arc;
use std::task::{Context, Poll};

use coordination::error_code::ErrorCode;
use coordination::reply::Refusal;
use tokio::time::Instant;
use wire::{ApiKey, Body, Frame, Head, Request, Sasl};

use super::clock::after;
use super::{Connection, Hold, Intake};
use crate::authentication::{Answered, Outcome, Session, Showing, Step, delay, hear, welcome};
use crate::ending::Ending;
use crate::guard::{Guard, Stage};
use crate::limits::REAUTH_INTERVAL;
use crate::login::{Desk, Exchange};
use crate::metrics::ApiSlot;

const API_VERSIONS: i16 = ApiKey::ApiVersions.number();
const SASL_HANDSHAKE: i16 = ApiKey::SaslHandshake.number();
const SASL_AUTHENTICATE: i16 = ApiKey::SaslAuthenticate.number();

/// What the guard makes of the frame at the front.
pub(super) enum Passage {
    /// It may start like any other.
    Free,
    /// It was for the guard.
    Taken,
    /// It stays where it is.
    Shut,
}

impl Connection {
    /// Shows the frame at the front to the guard.
    #[cold]
    pub(super) fn pass(&mut self, cx: &mut Context<'_>, length: usize) -> Passage {
        let Some(guard) = &mut self.guard else { return Passage::Free };
        // Not when it was read: what waited behind others must not outlive the login that it was sent under.
        let (api, now) = (self.input.front_api(), Instant::now());
        if guard.deadline.is_some_and(|deadline| deadline <= now) {
            // The clock is asked last, which who keeps asking could put off for ever.
            self.shared.metrics.authentication_timeouts.inc();
            return self.shut(Ending::TooSlow);
        }
        match std::mem::replace(&mut guard.stage, Stage::Busy) {
            // Anyone may ask what can be asked.
            stage @ (Stage::Door(_) | Stage::Choosing) if api == Some(API_VERSIONS) => {
                guard.stage = stage;
                Passage::Free
            }
            Stage::Door(visitor) => {
                let desk = self.desk();
                self.begin(cx, Box::pin(welcome(desk, visitor)));
                if self.guard.is_none() { Passage::Free } else { Passage::Shut }
            }
            Stage::Choosing if api == Some(SASL_HANDSHAKE) => self.choose(cx, length, None),
            Stage::Showing(showing) if showing.is_bare => {
                let message = self.input.take(length);
                let desk = self.desk();
                self.begin(cx, Box::pin(hear(desk, showing, message, None)));
                Passage::Taken
            }
            Stage::Showing(showing) if api == Some(SASL_AUTHENTICATE) => {
                let Some(request) = self.take_request(length) else { return Passage::Shut };
                let Request { head, body: Body::Sasl(Sasl::Authenticate { auth_bytes }), .. } = request
                else {
                    return self.shut(Ending::Early);
                };
                let desk = self.desk();
                self.begin(cx, Box::pin(hear(desk, showing, auth_bytes, Some(head))));
                Passage::Taken
            }
            // As Kafka, where nobody learns anything by asking early. After the handshake it says ILLEGAL_SASL_STATE
            // before it closes, to clients that no client library is.
            Stage::Choosing | Stage::Showing(_) => self.shut(Ending::Early),
            Stage::Inside(session) if api == Some(SASL_HANDSHAKE) && may_renew(&session, now) => {
                self.choose(cx, length, Some(&session))
            }
            Stage::Inside(session) if session.ends <= now => {
                self.shared.metrics.sessions_expired.inc();
                self.shut(Ending::Expired)
            }
            stage @ Stage::Inside(_) => {
                guard.stage = stage;
                Passage::Free
            }
            Stage::Busy => Passage::Shut,
        }
    }

    fn shut(&mut self, why: Ending) -> Passage {
        self.intake = Intake::Closed(why);
        Passage::Shut
    }

    /// The client chooses a mechanism; `session` is the one that it has already.
    fn choose(&mut self, cx: &mut Context<'_>, length: usize, session: Option<&Session>) -> Passage {
        let Some(request) = self.take_request(length) else { return Passage::Shut };
        let Request { head, body: Body::Sasl(Sasl::Handshake { mechanism: named }), .. } = request else {
            return self.shut(Ending::Early);
        };
        let entrance = Arc::clone(&self.entrance);
        let Some(logins) = &entrance.logins else { return self.shut(Ending::Early) };
        let mechanism = match logins.offered(&named) {
            Some(mechanism) if session.is_none_or(|session| session.mechanism == mechanism) => mechanism,
            Some(_) => {
                // Kafka says nothing of it and closes with the next message.
                let why = "another mechanism than before was asked for";
                return self.refuse(cx, head, ErrorCode::IllegalSaslState, why.to_owned());
            }
            None => {
                let named: String = named.chars().take(64).collect();
                let why = format!("the mechanism {named:?} is not offered");
                return self.refuse(cx, head, ErrorCode::UnsupportedSaslMechanism, why);
            }
        };
        let is_bare = head.version == 0;
        self.answer(handshake(&head, None, logins.names()));
        let is_again = session.is_some();
        let showing = Showing { mechanism, exchange: Exchange::new(mechanism), is_bare, is_again };
        if let Some(guard) = &mut self.guard {
            guard.stage = Stage::Showing(showing);
            let deadline = after(Instant::now(), self.shared.options.authentication_timeout);
            let deadline = *guard.deadline.get_or_insert(deadline);
            self.ring_by(deadline);
        }
        Passage::Taken
    }

    fn refuse(&mut self, cx: &mut Context<'_>, head: Head, code: ErrorCode, why: String) -> Passage {
        let desk = self.desk();
        let step = async move {
            delay(&desk, "none", None, &why).await;
            let names = desk.entrance.logins.as_ref().map(|logins| logins.names());
            let answer = handshake(&head, Some(code), names.unwrap_or_default());
            Outcome::Out { answer: Some(answer), ending: Ending::Unknown }
        };
        self.begin(cx, Box::pin(step));
        Passage::Taken
    }

    /// Answers what is asked of a guard where there is none: on a plain listener, or after a login that does not end.
    #[cold]
    pub(super) fn answer_out_of_place(&mut self, head: &Head, asked: &Sasl) {
        let code = ErrorCode::IllegalSaslState;
        match asked {
            Sasl::Handshake { .. } => self.answer(handshake(head, Some(code), Vec::new())),
            Sasl::Authenticate { .. } => {
                let said = "SaslAuthenticate request received after successful authentication";
                let frame = wire::encode_sasl_authenticate(head, Err(Refusal::new(code, said)));
                self.answer(counted(head, Some(code), frame));
            }
        }
    }

    fn desk(&self) -> Desk {
        Desk {
            shared: Arc::clone(&self.shared),
            entrance: Arc::clone(&self.entrance),
            carrier: self.carrier.clone(),
        }
    }

    fn begin(&mut self, cx: &mut Context<'_>, mut step: Step) {
        self.is_known_to_broker = true;
        match step.as_mut().poll(cx) {
            Poll::Ready(outcome) => self.conclude(outcome),
            Poll::Pending => self.hold = Some(Hold::Step(step)),
        }
    }

    /// Does what a step has come to.
    pub(super) fn conclude(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Goes { answer, showing } => {
                self.answer(answer);
                if let Some(guard) = &mut self.guard {
                    guard.stage = Stage::Showing(showing);
                }
            }
            Outcome::In { answer, carrier, session } => {
                self.carrier = carrier;
                self.seat.becomes_known();
                self.input.allow(self.shared.options.socket_request_max_bytes);
                if let Some(answer) = answer {
                    self.answer(answer);
                }
                self.guard =
                    session.map(|session| Box::new(Guard { stage: Stage::Inside(session), deadline: None }));
            }
            Outcome::Out { answer, ending } => {
                if let Some(answer) = answer {
                    self.answer(answer);
                }
                self.intake = Intake::Closed(ending);
            }
        }
    }

    fn answer(&mut self, answered: Answered) {
        let Answered { frame, api, error } = answered;
        self.active_at = Instant::now();
        if let Some(api) = api {
            self.traffic.count(ApiSlot::of(api), error, self.active_at - self.read_at, 1);
        }
        self.output.push(frame);
    }
}

/// Whether the client may show again who it is, at this time.
fn may_renew(session: &Session, now: Instant) -> bool {
    session.renewed.is_none_or(|renewed| renewed + REAUTH_INTERVAL <= now)
}

fn handshake(head: &Head, error: Option<ErrorCode>, mechanisms: Vec<String>) -> Answered {
    counted(head, error, wire::encode_sasl_handshake(head, error, mechanisms))
}

fn counted(head: &Head, error: Option<ErrorCode>, frame: Frame) -> Answered {
    Answered { frame: frame.into_bytes(), api: Some(head.api), error }
}
