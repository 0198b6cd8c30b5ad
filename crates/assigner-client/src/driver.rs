//! Carries out what the machine decides: connects, asks, and calls the handler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::Endpoint;
use tracing::{debug, error, info, warn};

use crate::calls::{self, Client, Identity, Token};
use crate::clock;
use crate::handler::{Handler, HandlerError, Owned, WarmControl};
use crate::machine::{
    Action, Answer, Call, Command, Failure, FailureKind, LinkId, Loss, Machine, Outcome, Ticket,
};
use crate::ownership::Ownership;
use crate::partition::Partition;
use crate::proto;

/// How long the driver sleeps at most. Timers stand still while the machine is suspended, but leases do not.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Commands that wait for the driver. When there are more, the assigner waits.
pub(crate) const COMMANDS: usize = 256;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Deregister,
    Stop,
}

/// What tasks of the driver report.
enum Event {
    Returned { partition: Partition, result: Result<(), HandlerError> },
    Answered { ticket: Ticket, result: Result<Answer, Failure> },
}

/// What comes over the stream.
enum Incoming {
    Command(LinkId, Command),
    Gone(LinkId, Failure),
}

pub(crate) struct Driver<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) token: Token,
    pub(crate) registration: proto::RegisterRequest,
    pub(crate) ownership: Ownership,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
    pub(crate) machine: Machine,
}

struct Tasks<H> {
    handler: Arc<H>,
    endpoints: Vec<Endpoint>,
    token: Token,
    registration: proto::RegisterRequest,
    ownership: Ownership,
    events: mpsc::UnboundedSender<Event>,
    incoming: mpsc::Sender<Incoming>,
    client: Option<Client>,
    connection: Option<JoinHandle<()>>,
    warming: BTreeMap<Partition, WarmControl>,
}

impl<H: Handler> Driver<H> {
    pub(crate) async fn run(self) -> Outcome {
        let Self { handler, endpoints, token, registration, ownership, mut control, mut machine } = self;
        let (events_sender, mut events) = mpsc::unbounded_channel();
        let (incoming_sender, mut incoming) = mpsc::channel(COMMANDS);
        let mut tasks = Tasks {
            handler,
            endpoints,
            token,
            registration,
            ownership,
            events: events_sender,
            incoming: incoming_sender,
            client: None,
            connection: None,
            warming: BTreeMap::new(),
        };
        let mut is_controlled = true;
        let mut collect_at = clock::now();
        loop {
            if clock::now() >= collect_at {
                tasks.collect_progress(&mut machine);
                collect_at = clock::now() + LOOK_AGAIN;
            }
            machine.handle_time(clock::now());
            if let Some(outcome) = tasks.carry_out(&mut machine) {
                return outcome;
            }
            let deadline = machine.next_deadline();
            let wait = deadline.map_or(LOOK_AGAIN, |at| at.saturating_sub(clock::now()).min(LOOK_AGAIN));
            tokio::select! {
                wish = control.recv(), if is_controlled => match wish {
                    Some(Control::Deregister) => machine.deregister(clock::now()),
                    Some(Control::Stop) => machine.stop(clock::now()),
                    // Nobody holds the handle any more.
                    None => {
                        is_controlled = false;
                        machine.stop(clock::now());
                    }
                },
                Some(event) = events.recv() => {
                    tasks.handle_event(&mut machine, event);
                    while let Ok(event) = events.try_recv() {
                        tasks.handle_event(&mut machine, event);
                    }
                }
                Some(first) = incoming.recv() => {
                    handle_incoming(&mut machine, first);
                    // Not without end, so that what they ask for is done meanwhile.
                    for next in (1..COMMANDS).map_while(|_| incoming.try_recv().ok()) {
                        handle_incoming(&mut machine, next);
                    }
                }
                () = sleep(wait) => {}
            }
        }
    }
}

fn handle_incoming(machine: &mut Machine, incoming: Incoming) {
    let now = clock::now();
    match incoming {
        Incoming::Command(link, command) => {
            debug!(?command, "told");
            machine.handle_command(now, link, command);
        }
        Incoming::Gone(link, failure) => {
            // To someone who leaves it is no news.
            if machine.is_leaving() || (machine.is_going() && failure.kind == FailureKind::Unregistered) {
                debug!(reason = failure.message, "not connected to the assigner");
            } else {
                warn!(reason = failure.message, "not connected to the assigner");
            }
            machine.handle_disconnected(now, link, &failure);
        }
    }
}

impl<H: Handler> Tasks<H> {
    fn handle_event(&mut self, machine: &mut Machine, event: Event) {
        let now = clock::now();
        match event {
            Event::Returned { partition, result } => {
                self.warming.remove(&partition);
                if let Err(error) = &result {
                    warn!(%partition, error, "the handler failed");
                }
                machine.handle_return(now, &partition, result.is_ok());
            }
            Event::Answered { ticket, result } => {
                if let Err(failure) = &result {
                    debug!(reason = failure.message, "not answered as hoped");
                }
                machine.handle_answer(now, ticket, result);
            }
        }
    }

    fn collect_progress(&self, machine: &mut Machine) {
        let now = clock::now();
        let warming: Vec<Partition> = machine.warming().cloned().collect();
        for partition in warming {
            if let Some(control) = self.warming.get(&partition) {
                let (done, total) = control.progress();
                machine.handle_progress(now, &partition, done, total);
            }
        }
    }

    /// Does what the machine wants, until it wants nothing more. Returns how everything ended, if it has.
    fn carry_out(&mut self, machine: &mut Machine) -> Option<Outcome> {
        loop {
            let actions = machine.take_actions();
            if actions.is_empty() {
                return None;
            }
            for action in actions {
                match action {
                    Action::Connect { link, endpoint, within } => self.connect(link, endpoint, within),
                    Action::Disconnect => self.disconnect(),
                    Action::Turn { endpoint } => self.turn(endpoint),
                    Action::Send { ticket, request, within } => {
                        let (client, events) = (self.client.clone(), self.events.clone());
                        let identity = self.identity();
                        tokio::spawn(async move {
                            let result = match client {
                                Some(client) => calls::ask(client, identity, request, within).await,
                                None => {
                                    let message = "not connected".to_owned();
                                    Err(Failure { kind: FailureKind::Later, message })
                                }
                            };
                            let _ = events.send(Event::Answered { ticket, result });
                        });
                    }
                    Action::Call { partition, call } => self.call(partition, call),
                    Action::EndWarm { partition, end } => {
                        if let Some(control) = self.warming.get(&partition) {
                            control.end(end);
                        }
                    }
                    Action::Own { partition, epoch } => self.ownership.insert(partition, epoch),
                    Action::Disown { partition } => self.ownership.remove(&partition),
                    Action::Until { stop_at, is_new: true } => {
                        info!("registered");
                        self.ownership.begin(stop_at);
                    }
                    Action::Until { stop_at, is_new: false } => {
                        if !self.ownership.extend(stop_at) {
                            machine.handle_over(clock::now());
                        }
                    }
                    Action::Stopped(loss) => {
                        let is_news = !machine.is_going() || !self.ownership.owned().is_empty();
                        self.ownership.end();
                        match loss {
                            Loss::Unheard => {
                                warn!("the lease was not renewed in time: nothing is owned any more");
                            }
                            Loss::Unregistered if !is_news => info!("not registered any more"),
                            Loss::Unregistered => {
                                warn!(
                                    "not registered any more: nothing is owned until the next registration"
                                );
                            }
                        }
                    }
                    Action::Fenced => {
                        error!("another process has taken the name of this consumer");
                        let handler = Arc::clone(&self.handler);
                        tokio::spawn(async move { handler.fenced().await });
                    }
                    // All that is left ends with this.
                    Action::End(outcome) => return Some(outcome),
                }
            }
        }
    }

    fn identity(&self) -> Identity {
        let proto::RegisterRequest { consumer_name, group, session, .. } = &self.registration;
        Identity { consumer_name: consumer_name.clone(), group: group.clone(), session: session.clone() }
    }

    /// A connection is made anew each time: the one before may hang in a network that swallows everything.
    fn connect(&mut self, link: LinkId, endpoint: usize, within: Duration) {
        self.turn(endpoint);
        let Some(client) = self.client.clone() else { return };
        let (registration, incoming) = (self.registration.clone(), self.incoming.clone());
        self.disconnect();
        self.connection = Some(tokio::spawn(async move {
            let failure = follow(client, registration, link, within, &incoming).await;
            let _ = incoming.send(Incoming::Gone(link, failure)).await;
        }));
    }

    /// Asks this endpoint from now on.
    fn turn(&mut self, endpoint: usize) {
        let Some(endpoint) = self.endpoints.get(endpoint) else { return };
        debug!(endpoint = %endpoint.uri(), "connecting");
        self.client = Some(calls::client(endpoint.connect_lazy(), self.token.clone()));
    }

    fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.abort();
        }
    }

    fn call(&mut self, partition: Partition, call: Call) {
        debug!(%partition, ?call, "calling the handler");
        let handler = Arc::clone(&self.handler);
        let place = partition.clone();
        let running = match call {
            Call::Warm { current_owner, .. } => {
                let (control, warming) = WarmControl::new(partition.clone(), current_owner);
                self.warming.insert(partition.clone(), control);
                tokio::spawn(async move { handler.warm(warming).await })
            }
            Call::Assign { epoch } => {
                let owned = Owned::new(place, epoch, self.ownership.clone());
                tokio::spawn(async move { handler.assign(owned).await })
            }
            Call::Release => tokio::spawn(async move { handler.release(place).await }),
            Call::Cancel => tokio::spawn(async move {
                handler.cancel(place).await;
                Ok(())
            }),
            Call::Revoke => tokio::spawn(async move {
                handler.revoke(place).await;
                Ok(())
            }),
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            // A handler that panics has failed, and harms nothing but its partition.
            let result = running.await.unwrap_or_else(|error| Err(error.into()));
            let _ = events.send(Event::Returned { partition, result });
        });
    }
}

impl<H> Drop for Tasks<H> {
    fn drop(&mut self) {
        self.ownership.end();
        if let Some(connection) = &self.connection {
            connection.abort();
        }
    }
}

/// Passes on what comes over one stream, until it ends.
async fn follow(
    mut client: Client,
    registration: proto::RegisterRequest,
    link: LinkId,
    within: Duration,
    incoming: &mpsc::Sender<Incoming>,
) -> Failure {
    let ended = || Failure { kind: FailureKind::Later, message: "the stream has ended".to_owned() };
    let registered = timeout(within, async {
        let mut stream = client.register(registration).await?.into_inner();
        let first = stream.message().await?;
        Ok((first, stream))
    });
    let (mut next, mut stream) = match registered.await {
        Ok(Ok((first, stream))) => (first, stream),
        Ok(Err(status)) => return calls::stream_failure(&status),
        Err(_) => return calls::late(within),
    };
    while let Some(command) = next {
        if let Some(command) = calls::decode(command)
            && incoming.send(Incoming::Command(link, command)).await.is_err()
        {
            return ended();
        }
        next = match stream.message().await {
            Ok(next) => next,
            Err(status) => return calls::stream_failure(&status),
        };
    }
    ended()
}
