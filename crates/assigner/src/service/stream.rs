//! What one registered consumer is told, from its snapshot until something ends its stream.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use assigner_client::proto::AssignmentCommand;
use coordination::handoff::{
    ConsumerName, ConsumerState, Deregistered, View, deregister, gone, predecessors_gone,
};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::codegen::tokio_stream::Stream;
use tonic::{Code, Status};
use tracing::Instrument as _;

use crate::groups::{Group, Groups, Seen, SettleError, ViewReceiver};

use super::message;
use super::refusal;
use super::register::Registration;

/// The commands of one consumer as they leave. Dropped when the client is gone.
pub(super) struct CommandStream {
    commands: mpsc::Receiver<AssignmentCommand>,
    /// Why the stream ends. It overtakes what is in the channel: whoever is fenced has to hear of it first.
    end: Option<oneshot::Receiver<Status>>,
    _open: Open,
}

/// A stream that counts for as long as the client has it.
struct Open {
    streams: Gauge,
    _place: OwnedSemaphorePermit,
}

impl Open {
    fn new(streams: Gauge, place: OwnedSemaphorePermit) -> Self {
        streams.inc();
        Self { streams, _place: place }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.dec();
    }
}

impl Stream for CommandStream {
    type Item = Result<AssignmentCommand, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(end) = &mut self.end else { return Poll::Ready(None) };
        if let Poll::Ready(end) = Pin::new(end).poll(context) {
            self.end = None;
            let status = end.unwrap_or_else(|_| Status::internal("the stream broke off; register again"));
            return Poll::Ready(Some(Err(status)));
        }
        match ready!(self.commands.poll_recv(context)) {
            Some(command) => Poll::Ready(Some(Ok(command))),
            // The reason comes right behind.
            None => Poll::Pending,
        }
    }
}

/// Follows what a consumer has to be told.
pub(super) struct Follower {
    pub(super) groups: Groups,
    pub(super) registration: Registration,
    /// How many commands may wait for the client to read them.
    pub(super) channel_size: usize,
    /// True when this instance is about to stop.
    pub(super) stop: watch::Receiver<bool>,
}

use End::{Closed, Told};

/// Why a stream ends.
#[derive(Debug)]
enum End {
    /// The client has closed it, or its connection is lost.
    Closed,
    /// Something that the client is told.
    Told(Status),
}

impl Follower {
    /// Begins to tell the consumer what it has to know. The place is kept for as long as the client has the stream.
    pub(super) fn start(self, place: OwnedSemaphorePermit) -> CommandStream {
        let (sender, commands) = mpsc::channel(self.channel_size.max(1));
        let (end_sender, end) = oneshot::channel();
        let open = Open::new(self.groups.metrics().streams.clone(), place);
        let Registration { group, name, .. } = &self.registration;
        let group = message::group_text(group);
        let span = tracing::info_span!(parent: None, "kohort.assigner.stream", group, consumer = %name);
        let task = async move {
            let end = self.follow(&sender).await;
            self.log(&end);
            match end {
                Closed => self.leave().await,
                Told(status) => drop(end_sender.send(status)),
            }
        };
        tokio::spawn(task.instrument(span));
        CommandStream { commands, end: Some(end), _open: open }
    }

    async fn follow(&self, sender: &mpsc::Sender<AssignmentCommand>) -> End {
        let mut stop = self.stop.clone();
        let mut views = self.groups.views(&self.registration.group, &self.registration.name);
        let mut watching = pin!(self.watch_over());
        let mut waiting = pin!(self.wait_for_predecessors());
        let mut is_waiting = true;
        let mut unsent = Unsent::default();
        loop {
            // What is newer waits until all that was said before is on its way; then the difference to the newest is
            // said. So a slow client holds up nobody, and misses nothing but what is no longer true.
            if let Err(status) = self.look(&mut views, &mut unsent) {
                return Told(status);
            }
            tokio::select! {
                biased;
                () = sender.closed() => return Closed,
                _ = stop.wait_for(|is_stopping| *is_stopping) => {
                    return Told(Status::unavailable("this instance of the assigner stops; register with another"));
                }
                status = &mut watching => return Told(status),
                () = &mut waiting, if is_waiting => is_waiting = false,
                () = views.changed() => {}
                place = sender.reserve(), if !unsent.commands.is_empty() => {
                    let Ok(place) = place else { return Closed };
                    if let Some(command) = unsent.commands.pop_front() {
                        place.send(command);
                    }
                    while let Some(command) = unsent.commands.pop_front() {
                        if let Err(refused) = sender.try_send(command) {
                            unsent.commands.push_front(refused.into_inner());
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Checks that the consumer is still this one, and finds out what it has to be told if it knows the rest.
    fn look(&self, views: &mut ViewReceiver, unsent: &mut Unsent) -> Result<(), Status> {
        let Registration { name, session, protocol_version, lease, .. } = &self.registration;
        let Seen { view, lease: current, session: registered } = views.latest();
        match current {
            Some(current) if current == lease.id => {}
            Some(_) if registered == Some(*session) => {
                return Err(refusal::of_kind(
                    Code::Aborted,
                    "superseded",
                    format!("{name} has registered again; this stream is over"),
                ));
            }
            Some(_) => {
                return Err(refusal::of_kind(
                    Code::Aborted,
                    "fenced",
                    format!("another process has registered as {name}; this one has to stop"),
                ));
            }
            None => return Err(unregistered(name)),
        }
        if unsent.commands.is_empty() && unsent.known.as_ref() != Some(&view) {
            let commands = view.commands(unsent.known.as_deref());
            let sent = commands.iter().map(|command| message::command(command, *protocol_version, lease));
            unsent.commands.extend(sent);
            unsent.known = Some(view);
        }
        Ok(())
    }

    /// Ends when the client has to go elsewhere: this instance has heard nothing of etcd for a third of a lease, or could
    /// not renew the lease of a client of the original contract, which cannot do so itself. Two thirds are left to the
    /// client then.
    async fn watch_over(&self) -> Status {
        let Registration { name, lease, granted, .. } = &self.registration;
        let patience = lease.ttl / 3;
        let mut renewed = *granted;
        let mut pause = lease.keep_alive_interval;
        loop {
            tokio::time::sleep(pause).await;
            pause = lease.keep_alive_interval;
            if self.groups.behind() > patience {
                let text =
                    format!("this instance cannot see what {name} has to be told; register with another");
                return refusal::of_kind(Code::Unavailable, "behind", text);
            }
            if self.registration.renews_by_itself() {
                continue;
            }
            let sent = Instant::now();
            match timeout_at(renewed + patience, self.groups.keep_alive(lease.id)).await {
                Ok(Ok(Some(_))) => renewed = sent,
                Ok(Ok(None)) => return unregistered(name),
                Ok(Err(error)) => tracing::debug!(%error, "could not renew the lease"),
                Err(_) => tracing::debug!("could not renew the lease in time"),
            }
            if renewed != sent {
                pause /= 4;
            }
            if renewed.elapsed() >= patience {
                let text = format!("this instance cannot renew the lease of {name}; register with another");
                return refusal::of_kind(Code::Unavailable, "cannot-renew", text);
            }
        }
    }

    /// Tells etcd that former processes of the name have stopped, once they must have. No instance has let one of them
    /// renew its lease since this consumer was registered, and each counts from before it asked for that. They begin to
    /// stop after two thirds of their lease; the last third is for what they have under way, as when a lease ends.
    async fn wait_for_predecessors(&self) {
        let Registration { group, name, session, lease, alone_at, .. } = &self.registration;
        let has_predecessors = |group: &Group| {
            let consumer = group.state.consumers.get(name);
            consumer.is_some_and(|stored| !stored.value.predecessors.is_empty())
        };
        if !self.groups.with(group, has_predecessors) {
            return;
        }
        tracing::info!("a former process of this name may still work; waiting for its end");
        sleep_until(*alone_at).await;
        loop {
            let decide = |known: &Group| {
                // Whoever has registered since then waits for himself.
                let is_same = known.leases.get(name) == Some(&lease.id);
                let step = predecessors_gone(&known.state, name, *session).filter(|_| is_same);
                Ok::<_, std::convert::Infallible>((step, ()))
            };
            match self.groups.settle(group, None, decide).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "could not write that former processes have stopped"),
            }
            tokio::time::sleep(lease.keep_alive_interval).await;
        }
    }

    /// The client is gone. One that has its own session says so when it has stopped. One of the original contract that
    /// was told to shut down does it by closing its stream, and nobody need wait for its lease then.
    async fn leave(&self) {
        let Registration { group, name, session, lease, .. } = &self.registration;
        if self.registration.renews_by_itself() {
            return;
        }
        let decide = |known: &Group| {
            let is_this = known.leases.get(name) == Some(&lease.id);
            let consumer = known.state.consumers.get(name).filter(|_| is_this);
            let is_draining = consumer.is_some_and(|stored| stored.value.state == ConsumerState::Draining);
            let has_nothing_left =
                matches!(deregister(&known.state, name, *session), Ok(Deregistered::ShutdownNow { .. }));
            if !(is_draining && has_nothing_left) {
                return Ok((None, false));
            }
            // While a former process may still work, the key stays for as long as its lease.
            let is_deleted = consumer.is_some_and(|stored| stored.value.predecessors.is_empty());
            gone(&known.state, name, *session).map(|step| (step, is_deleted))
        };
        match self.groups.settle(group, None, decide).await {
            Ok(true) => {
                tracing::info!("deregistered");
                if let Err(error) = self.groups.revoke(lease.id).await {
                    tracing::debug!(%error, "could not end a lease that is not needed any more");
                }
            }
            Ok(false) | Err(SettleError::Refused(_)) => {}
            Err(error) => tracing::debug!(%error, "could not deregister; the lease runs"),
        }
    }

    fn log(&self, end: &End) {
        match end {
            Closed => tracing::info!("the stream was closed"),
            Told(status) => {
                tracing::info!(code = ?status.code(), "the stream was ended: {}", status.message());
            }
        }
    }
}

/// What the client does not have in its channel yet.
#[derive(Default)]
struct Unsent {
    commands: VecDeque<AssignmentCommand>,
    /// What it knows once all of them have arrived.
    known: Option<Arc<View>>,
}

fn unregistered(name: &ConsumerName) -> Status {
    let text =
        format!("{name} is not registered any more: its lease has ended, or it has left; register again");
    refusal::of_kind(Code::Unavailable, "unregistered", text)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;
    use tonic::codegen::tokio_stream::StreamExt as _;

    use super::*;

    fn stream() -> (mpsc::Sender<AssignmentCommand>, oneshot::Sender<Status>, CommandStream, Gauge) {
        let (sender, commands) = mpsc::channel(4);
        let (end_sender, end) = oneshot::channel();
        let streams = Gauge::default();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let open = Open::new(streams.clone(), place);
        (sender, end_sender, CommandStream { commands, end: Some(end), _open: open }, streams)
    }

    #[tokio::test]
    async fn the_end_overtakes_what_has_not_been_read() {
        let (sender, end, mut stream, streams) = stream();
        for _ in 0..3 {
            sender.send(AssignmentCommand::default()).await.unwrap();
        }
        assert!(stream.next().await.unwrap().is_ok());
        end.send(Status::aborted("fenced")).unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::Aborted);
        assert!(stream.next().await.is_none());
        assert_eq!(streams.get(), 1, "it counts until it is dropped");
        drop(stream);
        assert_eq!(streams.get(), 0);
        sender.closed().await;
    }

    #[tokio::test]
    async fn a_stream_never_ends_without_a_word() {
        let (sender, end, mut stream, _) = stream();
        drop((sender, end));
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::Internal);
    }
}
