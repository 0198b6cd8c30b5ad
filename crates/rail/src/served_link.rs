//! One gateway that was let in, as the broker serves it.

use std::sync::Arc;

use bytes::Bytes;
use coordination::op::Op;
use iroh::endpoint::{Connection, RecvStream, SendStream};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Rail;
use crate::carrier::Carrier;
use crate::fast_map::FastMap;
use crate::format::{self, Announced, FormatError, Order, Outbox, Version, Welcome};
use crate::lane::LaneError;
use crate::limits::LANES;
use crate::roster::{Node, Roster};
use crate::served_lane::ServedLane;

/// What the lanes of one link share.
pub(crate) struct ServedLink {
    pub(crate) rail: Arc<dyn Rail>,
    pub(crate) version: Version,
    clients: Mutex<FastMap<u64, Client>>,
}

/// A client that was announced on at least one lane.
struct Client {
    carrier: Carrier,
    /// On how many lanes.
    lanes: usize,
    /// It has asked for a place among its organisation's connections, over this link or one before.
    has_entered: bool,
}

impl ServedLink {
    pub(crate) fn new(rail: Arc<dyn Rail>, version: Version) -> Self {
        Self { rail, version, clients: Mutex::default() }
    }

    /// A client was announced on a lane, where it `is_known` already or not.
    pub(crate) fn announced(&self, announced: Announced, is_known: bool) -> Carrier {
        let (number, had_place) = (announced.number, announced.has_place);
        let mut clients = self.clients.lock();
        let local = clients.get(&number).map(|client| client.carrier.number());
        let carrier = Carrier::from_afar(local, announced);
        let client = clients.entry(number).or_insert_with(|| Client {
            carrier: carrier.clone(),
            lanes: 0,
            has_entered: false,
        });
        client.carrier = carrier.clone();
        client.lanes += usize::from(!is_known);
        let enters_again = had_place && !client.has_entered;
        client.has_entered |= had_place;
        drop(clients);
        if enters_again {
            // It holds its connection already; should there be no place any more, the next to come is refused.
            drop(self.rail.call(&carrier, Op::Enter));
        }
        carrier
    }

    /// The client asks for a place itself.
    pub(crate) fn entered(&self, number: u64) {
        if let Some(client) = self.clients.lock().get_mut(&number) {
            client.has_entered = true;
        }
    }

    /// The client has left a lane; when it was the last, it has gone.
    pub(crate) fn leave(&self, number: u64, carrier: &Carrier) {
        let mut clients = self.clients.lock();
        let Some(client) = clients.get_mut(&number) else { return };
        client.lanes -= 1;
        if client.lanes == 0 {
            clients.remove(&number);
            drop(clients);
            self.rail.leave(carrier);
        }
    }
}

/// The link is gone, and all its clients with it. The lanes, which hold it too, have gone before with their answers.
impl Drop for ServedLink {
    fn drop(&mut self) {
        for client in std::mem::take(self.clients.get_mut()).into_values() {
            self.rail.leave(&client.carrier);
        }
    }
}

/// The first stream of a link, on which the broker says who there is.
pub(crate) struct Words {
    pub(crate) send: SendStream,
    /// Kept, since a stream whose end is dropped is stopped.
    pub(crate) _receive: RecvStream,
}

/// Serves a gateway until its link ends. Says why it did.
pub(crate) async fn serve(
    connection: &Connection,
    link: Arc<ServedLink>,
    node: i32,
    mut words: Words,
    mut nodes: watch::Receiver<Arc<[Node]>>,
    software: String,
) -> LaneError {
    let roster = |nodes: &mut watch::Receiver<Arc<[Node]>>| Roster {
        me: node,
        nodes: nodes.borrow_and_update().to_vec(),
    };
    let mut lanes = JoinSet::new();
    let talk = async {
        let welcome = Welcome { software, roster: roster(&mut nodes) };
        words.say(|out| format::welcome(&welcome, out)).await?;
        loop {
            if nodes.changed().await.is_err() {
                return Err::<std::convert::Infallible, LaneError>(LaneError::Ended);
            }
            let roster = roster(&mut nodes);
            words.say(|out| format::roster(&roster, out)).await?;
        }
    };
    tokio::pin!(talk);
    let error = loop {
        tokio::select! {
            Err(error) = &mut talk => break error,
            opened = connection.accept_bi(), if lanes.len() < LANES => match opened {
                Ok((send, receive)) => {
                    lanes.spawn(ServedLane::new(Arc::clone(&link), send, receive).run());
                }
                Err(_) => break LaneError::Ended,
            },
            ended = lanes.join_next(), if !lanes.is_empty() => break match ended {
                Some(Ok(error)) => error,
                // A call that panics is the broker's bug; the gateway dials again.
                Some(Err(_)) | None => LaneError::Ended,
            },
            _ = connection.closed() => break LaneError::Ended,
        }
    };
    lanes.shutdown().await;
    error
}

impl Words {
    async fn say(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), FormatError>,
    ) -> Result<(), LaneError> {
        let mut outbox = Outbox::new(Order::Kept);
        let mut chunks: Vec<Bytes> = Vec::new();
        outbox.push(|out, _| write(out))?;
        loop {
            // A roster of many gateways may be more than is taken at once.
            outbox.take(&mut chunks);
            if chunks.is_empty() {
                return Ok(());
            }
            self.send.write_all_chunks(&mut chunks).await?;
            chunks.clear();
        }
    }
}
