//! Keeps a link to the broker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use iroh::endpoint::{
    ConnectOptions, ConnectingError, Connection, ConnectionError, RecvStream, SendStream, VarInt,
};
use iroh::{Endpoint, EndpointAddr, TransportAddr};
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time;
use tracing::{info, warn};

use crate::format::version::listed;
use crate::format::{
    self, FormatError, FromBroker, Hello, Inlet, KeptRecords, Order, Outbox, Version, Welcome,
};
use crate::keys::BrokerAddress;
use crate::lane::{LaneError, PIECES};
use crate::limits::GREETING;
use crate::remote::{LANES, Link, Shared};

/// How a link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is none, and the broker is being dialled.
    Dialling,
    /// It is there, and the broker calls this gateway by this node id.
    Up {
        /// The node id.
        node: i32,
    },
    /// The broker does not want this gateway. It is asked again.
    Refused {
        /// What the broker says, or why it cannot be understood.
        reason: String,
    },
    /// It was given up.
    Closed,
}

/// The codes that a link is closed with. The reason that comes with them is for people.
pub(crate) mod closing {
    use super::VarInt;

    /// One end stops.
    pub(crate) const STOPPING: VarInt = VarInt::from_u32(0);
    /// The peer did not keep to the format.
    pub(crate) const FORMAT: VarInt = VarInt::from_u32(1);
    /// The gateway is not on the list, or was taken off it.
    pub(crate) const REFUSED: VarInt = VarInt::from_u32(2);
    /// The two ends speak no common version.
    pub(crate) const VERSION: VarInt = VarInt::from_u32(3);
    /// A newer link of the same gateway has taken over.
    pub(crate) const REPLACED: VarInt = VarInt::from_u32(4);
}

/// Dials the broker, again and again.
pub(crate) struct Dialler {
    pub(crate) endpoint: Endpoint,
    pub(crate) broker: BrokerAddress,
    pub(crate) hello: Hello,
    pub(crate) versions: &'static [Version],
    /// How many bytes of records the lanes keep together.
    pub(crate) record_memory: usize,
    pub(crate) shared: Arc<Shared>,
}

/// The pause before the second attempt, which doubles from then on.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between attempts. A broker that comes back is found within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pause of a gateway whose link was taken over by one with the same key.
const TWINS_PAUSE: Duration = Duration::from_secs(10);

/// Why there is no link, or no longer.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Dial(String),
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("{0}")]
    Lane(#[from] LaneError),
    #[error("the broker did not answer the greeting")]
    Greeting,
    #[error("another gateway with the same key has taken over; each needs a key of its own")]
    Replaced,
}

impl Dialler {
    /// Keeps a link until it is aborted.
    pub(crate) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        let mut last_word = String::new();
        loop {
            let (was_up, error) = self.link().await;
            // Two gateways with one key take the link from each other, and would do so many times a second.
            let is_twin = matches!(error, LinkError::Replaced);
            let word = error.to_string();
            self.shared.down(match error {
                LinkError::Refused(reason) => LinkState::Refused { reason },
                _ => LinkState::Dialling,
            });
            if was_up || word != last_word {
                let broker = &self.broker.address;
                if was_up {
                    warn!(%broker, reason = %word, "the link to the broker broke");
                } else {
                    warn!(%broker, reason = %word, "there is no link to the broker yet");
                }
                last_word = word.clone();
            }
            pause = match (is_twin, was_up) {
                (true, _) => TWINS_PAUSE,
                (false, true) => FIRST_PAUSE,
                (false, false) => (pause * 2).min(LONGEST_PAUSE),
            };
            // Gateways that lost their broker together shall not all come back in the same moment.
            time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        }
    }

    /// One link from dialling to its end. Says whether it was ever up.
    async fn link(&self) -> (bool, LinkError) {
        let connection = match self.dial().await {
            Ok(connection) => connection,
            Err(error) => return (false, error),
        };
        let mut is_up = false;
        let error = match self.serve(&connection, &mut is_up).await {
            Ok(never) => match never {},
            // The peer's reason says more than what a stream noticed of it.
            Err(error) => connection.close_reason().map_or(error, closed),
        };
        connection.close(closing::FORMAT, error.to_string().as_bytes());
        (is_up, error)
    }

    async fn dial(&self) -> Result<Connection, LinkError> {
        let found = lookup_host(&self.broker.address).await;
        let found =
            found.map_err(|error| LinkError::Dial(format!("find {}: {error}", self.broker.address)))?;
        let address = EndpointAddr::from_parts(self.broker.id, found.map(TransportAddr::Ip));
        let mut offered = self.versions.iter().map(|version| version.alpn());
        let first = offered.next().unwrap_or_default();
        let options = ConnectOptions::new().with_additional_alpns(offered.collect());
        let dialled = self.endpoint.connect_with_opts(address, &first, options).await;
        let connecting = dialled.map_err(|error| LinkError::Dial(format!("{error:#}")))?;
        connecting.await.map_err(|error| self.unreached(&error))
    }

    /// Why the broker was not reached, where an operator can do something about it in words that say so.
    fn unreached(&self, error: &ConnectingError) -> LinkError {
        // The alert unknown_ca of TLS: the certificate is that of another key.
        const ANOTHER_KEY: u64 = 0x130;
        let BrokerAddress { id, address } = &self.broker;
        LinkError::Dial(match error {
            ConnectingError::ConnectionError { source: ConnectionError::TimedOut, .. } => {
                format!("nobody answers at {address}")
            }
            ConnectingError::ConnectionError { source: ConnectionError::TransportError(error), .. }
                if u64::from(error.code) == ANOTHER_KEY =>
            {
                format!(
                    "whoever answers at {address} is not the broker {id}; `kohort broker id` shows which it is"
                )
            }
            _ => format!("{error:#}"),
        })
    }

    async fn serve(
        &self,
        connection: &Connection,
        is_up: &mut bool,
    ) -> Result<std::convert::Infallible, LinkError> {
        let Some(version) = Version::of_alpn(connection.alpn(), self.versions) else {
            let theirs = String::from_utf8_lossy(connection.alpn()).into_owned();
            return Err(LinkError::Refused(format!(
                "the broker chose {theirs}, not {}",
                listed(self.versions)
            )));
        };
        let (send, receive) = connection.open_bi().await?;
        let greeted = time::timeout(GREETING, self.greet(version, send, receive)).await;
        let (welcome, mut words) = greeted.map_err(|_| LinkError::Greeting)??;
        let link = Arc::new(Link::new(version, self.record_memory));
        let mut work = JoinSet::new();
        for (place, class) in LANES.into_iter().enumerate() {
            let (send, receive) = connection.open_bi().await?;
            // A stream that is gone already is noticed by whoever uses it.
            let _ = send.set_priority(class.priority());
            let (writing, reading) = (Arc::clone(&link), Arc::clone(&link));
            work.spawn(async move { writing.lanes()[place].write(send).await });
            work.spawn(async move { reading.lanes()[place].read(receive).await });
        }
        let node = welcome.roster.me;
        self.shared.up(Arc::clone(&link), welcome.roster);
        *is_up = true;
        info!(
            broker = %self.broker.address, node, software = %welcome.software, version = version.number(),
            "linked to the broker"
        );
        let listen = async {
            loop {
                match words.next().await? {
                    FromBroker::Roster(roster) => self.shared.told(roster),
                    _ => return Err::<std::convert::Infallible, _>(LaneError::Misplaced),
                }
            }
        };
        tokio::select! {
            // Each of them ends only with an error; a panic in one ends the link too.
            ended = work.join_next() => match ended {
                Some(Ok(Err(error))) => Err(error.into()),
                _ => Err(LaneError::Ended.into()),
            },
            Err(error) = listen => Err(error.into()),
            closed = connection.closed() => Err(closed.into()),
        }
    }

    async fn greet(
        &self,
        version: Version,
        mut send: SendStream,
        receive: RecvStream,
    ) -> Result<(Welcome, Words), LinkError> {
        let mut outbox = Outbox::new(Order::Kept);
        let mut chunks = Vec::new();
        outbox.push(|out, _| format::greet(&self.hello, out)).map_err(LaneError::from)?;
        outbox.take(&mut chunks);
        send.write_all_chunks(&mut chunks).await.map_err(LaneError::from)?;
        let mut words = Words { version, stream: receive, inlet: Inlet::default(), _send: send };
        match words.next().await? {
            FromBroker::Welcome(welcome) => Ok((welcome, words)),
            _ => Err(LaneError::Misplaced.into()),
        }
    }
}

/// What the broker says on the first stream.
struct Words {
    version: Version,
    stream: RecvStream,
    inlet: Inlet,
    /// A stream whose end is dropped is finished, which the broker would take for the end of the link.
    _send: SendStream,
}

impl Words {
    async fn next(&mut self) -> Result<FromBroker, LaneError> {
        let mut pieces = [const { Bytes::new() }; PIECES];
        loop {
            if let Some(message) = self.inlet.next_message()? {
                // Records come over lanes.
                let mut kept = KeptRecords::default();
                return format::decode_from_broker(self.version, &message, &mut kept)
                    .map_err(FormatError::into);
            }
            let count = self.stream.read_many_chunks(&mut pieces).await?.ok_or(LaneError::Ended)?;
            for piece in &mut pieces[..count] {
                self.inlet.feed(std::mem::take(piece));
            }
        }
    }
}

/// What the end of a connection means.
fn closed(error: ConnectionError) -> LinkError {
    match &error {
        ConnectionError::ApplicationClosed(close) => {
            let reason = String::from_utf8_lossy(&close.reason).into_owned();
            if [closing::REFUSED, closing::VERSION].contains(&close.error_code) {
                LinkError::Refused(reason)
            } else if close.error_code == closing::REPLACED {
                LinkError::Replaced
            } else {
                LinkError::Dial(if reason.is_empty() {
                    "the broker closed the link".to_owned()
                } else {
                    reason
                })
            }
        }
        _ => error.into(),
    }
}
