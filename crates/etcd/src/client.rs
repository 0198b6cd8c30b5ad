//! One request to the cluster.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::auth::{Auth, Token};
use crate::error::{Verdict, judge};
use crate::members::{Member, Members, with_leader};
use crate::proto::etcdserverpb::ResponseHeader;
use crate::{EtcdError, Options};

/// How long to wait when no member could be asked, before all are tried again.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait before another token is asked for after a new one was refused: making one is hard work for etcd.
const TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// A connection to the cluster. Clones share it.
#[derive(Clone, Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    members: Arc<Members>,
    auth: Option<Auth>,
    timeout: Duration,
    /// The newest revision that any answer has told of.
    newest: watch::Sender<u64>,
    /// A key that this user may read.
    readable: Mutex<Bytes>,
}

/// Whether a request may be sent to another member when it is not known what has become of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Repeat {
    /// It changes nothing, or the same however often it is carried out.
    Harmless,
    /// It might be carried out twice.
    Never,
}

impl Etcd {
    /// Prepares connections; none is needed for this to succeed. Has to be called where tokio runs.
    ///
    /// # Errors
    /// When an option is wrong.
    pub fn new(options: Options) -> Result<Self, EtcdError> {
        let endpoints = options.prepare()?;
        let shared = Shared {
            timeout: options.request_timeout(),
            members: Members::new(endpoints),
            auth: options.user.map(Auth::new),
            newest: watch::Sender::new(0),
            readable: Mutex::new(Bytes::from_static(b"\0")),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Sends a request to a member, and to another one as long as that is right and there is time.
    pub(crate) async fn call<Q, A, F>(
        &self,
        repeat: Repeat,
        message: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, EtcdError>
    where
        Q: Clone,
        F: Future<Output = Result<A, Status>>,
    {
        Ok(self.call_member(repeat, message, send).await?.0)
    }

    /// The same, for those who have more to do with the member that answers.
    pub(crate) async fn call_member<Q, A, F>(
        &self,
        repeat: Repeat,
        message: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<(A, Arc<Member>), EtcdError>
    where
        Q: Clone,
        F: Future<Output = Result<A, Status>>,
    {
        let members = &self.shared.members;
        let deadline = Instant::now() + self.shared.timeout;
        let mut failures = 0;
        let mut has_renewed = false;
        let mut told = None;
        loop {
            let member = members.in_use();
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = match repeat {
                // Time has to be left for the others.
                Repeat::Harmless => {
                    left.min(self.shared.timeout / u32::try_from(members.len()).unwrap_or(2).max(2))
                }
                Repeat::Never => left,
            };
            let asked = timeout(limit, self.ask(&member, message.clone(), &send));
            let verdict = tokio::select! {
                asked = asked => match asked {
                    Ok(Ok(answer)) => {
                        member.has_answered();
                        return Ok((answer, member));
                    }
                    // The next attempt brings a token with it.
                    Ok(Err(Verdict::StaleToken)) if !has_renewed && self.shared.auth.is_some() => {
                        has_renewed = true;
                        continue;
                    }
                    Ok(Err(verdict)) => Some(verdict),
                    Err(_) => None,
                },
                () = member.death() => None,
            };
            let (may_repeat, error) = self.weigh(&member, verdict, repeat);
            failures += 1;
            let pause = if matches!(error, EtcdError::AuthRefused(_)) {
                TOKEN_PAUSE
            } else if failures % members.len() == 0 {
                ROUND_PAUSE
            } else {
                Duration::ZERO
            };
            let is_over = Instant::now() + pause.max(ROUND_PAUSE) >= deadline;
            if !may_repeat || is_over {
                // That the last of several attempts was cut short says less than what one before it was told.
                let is_silence = repeat == Repeat::Harmless && matches!(error, EtcdError::TimedOut { .. });
                return Err(told.filter(|_| is_silence).unwrap_or(error));
            }
            if !matches!(error, EtcdError::TimedOut { .. }) {
                told = Some(error);
            }
            sleep(pause).await;
        }
    }

    /// Draws the conclusions of a failure: whether to try again, and the error if not. No verdict means silence.
    fn weigh(&self, member: &Arc<Member>, verdict: Option<Verdict>, repeat: Repeat) -> (bool, EtcdError) {
        let members = &self.shared.members;
        let endpoint = member.name();
        match verdict {
            Some(Verdict::NotSent(reason)) => {
                members.leave(member);
                (true, EtcdError::Unreachable { endpoints: members.names(), reason })
            }
            Some(Verdict::NoLeader(reason)) => {
                members.leave(member);
                (true, EtcdError::Failed { endpoint, reason })
            }
            Some(Verdict::StaleToken) if self.shared.auth.is_none() => {
                (false, EtcdError::AuthRefused("there are none, but it wants them".to_owned()))
            }
            Some(Verdict::StaleToken) => {
                (true, EtcdError::AuthRefused("it does not know its own token any more".to_owned()))
            }
            Some(Verdict::Failed(reason)) => {
                members.leave(member);
                (repeat == Repeat::Harmless, EtcdError::Failed { endpoint, reason })
            }
            Some(Verdict::Final(error)) => {
                member.has_answered();
                (false, error)
            }
            None => {
                members.leave(member);
                member.is_silent();
                (repeat == Repeat::Harmless, EtcdError::TimedOut { endpoint, after: self.shared.timeout })
            }
        }
    }

    async fn ask<Q, A, F>(
        &self,
        member: &Member,
        message: Q,
        send: &impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Verdict>
    where
        F: Future<Output = Result<A, Status>>,
    {
        let token = self.token(member).await?;
        let mut request = with_leader(message);
        if let Token::Held(token) = &token {
            request.metadata_mut().insert("token", token.clone());
        }
        let answer = send(member.channel(), request).await;
        match answer {
            Ok(answer) => Ok(answer),
            Err(status) => {
                let verdict = judge(&status);
                if let (Verdict::StaleToken, Some(auth)) = (&verdict, &self.shared.auth) {
                    auth.forget(&token).await;
                }
                Err(verdict)
            }
        }
    }

    async fn token(&self, member: &Member) -> Result<Token, Verdict> {
        match &self.shared.auth {
            Some(auth) => auth.token(member.channel()).await,
            None => Ok(Token::NotNeeded),
        }
    }

    /// Turns away from a member on whom a stream has ended.
    pub(crate) fn leave(&self, member: &Arc<Member>) {
        self.shared.members.leave(member);
    }

    /// Notes what revision an answer tells of.
    pub(crate) fn saw(&self, header: Option<&ResponseHeader>) -> u64 {
        let revision = header.map_or(0, |header| revision(header.revision));
        self.shared.newest.send_if_modified(|newest| {
            let is_newer = revision > *newest;
            *newest = (*newest).max(revision);
            is_newer
        });
        revision
    }

    /// The newest revision that any answer has told of, as it moves.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// Forgets of revisions that the cluster has forgotten.
    pub(crate) fn has_gone_back_to(&self, revision: u64) {
        tracing::warn!(revision, "etcd has gone back to an older revision");
        self.shared.newest.send_replace(revision);
    }

    /// A key that this user may read: with roles in force, few may read all.
    pub(crate) fn readable(&self) -> Bytes {
        self.shared.readable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a key that was read.
    pub(crate) fn has_read(&self, key: &[u8]) {
        let mut readable = self.shared.readable.lock().unwrap_or_else(PoisonError::into_inner);
        if *readable != key {
            *readable = Bytes::copy_from_slice(key);
        }
    }
}

/// etcd's revisions are signed, and never negative.
pub(crate) fn revision(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

/// The way back.
pub(crate) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}
