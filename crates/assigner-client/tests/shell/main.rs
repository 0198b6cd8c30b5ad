//! The library against an assigner that does what the test says.

mod server;

use std::sync::Arc;
use std::time::Duration;

use assigner_client::{
    Builder, Consumer, Handler, HandlerError, Owned, Partition, RunError, Running, Tls, WarmEnd, Warming,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::transport::Identity;
use tonic::{Code, Status};

use server::{Assigner, Heard, PATIENCE, Script, place};

/// Tells the test what it is called for. Warming takes until it is told to end or is let through.
struct Actor {
    calls: mpsc::UnboundedSender<(String, Option<Owned>)>,
    warm: Arc<Semaphore>,
}

impl Actor {
    fn tell(&self, call: String) {
        let _ = self.calls.send((call, None));
    }
}

impl Handler for Actor {
    async fn assign(&self, owned: Owned) -> Result<(), HandlerError> {
        let _ = self.calls.send((format!("assign {} {}", owned.partition, owned.epoch), Some(owned)));
        Ok(())
    }

    async fn warm(&self, warming: Warming) -> Result<(), HandlerError> {
        self.tell(format!("warm {} of {}", warming.partition, warming.current_owner));
        warming.report(1, 2);
        tokio::select! {
            end = warming.ended() => match end {
                WarmEnd::Cancelled => Err("cancelled".into()),
                WarmEnd::Assigned => Ok(()),
            },
            permit = self.warm.acquire() => {
                permit?.forget();
                Ok(())
            }
        }
    }

    async fn release(&self, partition: Partition) -> Result<(), HandlerError> {
        self.tell(format!("release {partition}"));
        Ok(())
    }

    async fn cancel(&self, partition: Partition) {
        self.tell(format!("cancel {partition}"));
    }

    async fn revoke(&self, partition: Partition) {
        self.tell(format!("revoke {partition}"));
    }

    async fn fenced(&self) {
        self.tell("fenced".to_owned());
    }
}

struct World {
    running: Running,
    calls: mpsc::UnboundedReceiver<(String, Option<Owned>)>,
    warm: Arc<Semaphore>,
}

fn start(assigners: &[&Assigner]) -> World {
    start_as(describe().endpoints(assigners.iter().map(|assigner| assigner.endpoint())))
}

fn start_as(builder: Builder) -> World {
    let (sender, calls) = mpsc::unbounded_channel();
    let warm = Arc::new(Semaphore::new(0));
    let consumer = builder.build().expect("nothing is missing");
    let running = consumer.start(Actor { calls: sender, warm: Arc::clone(&warm) });
    World { running, calls, warm }
}

fn describe() -> Builder {
    Consumer::builder("a")
        .group("g")
        .topic("t")
        .topic("u")
        .capacity(2)
        .rack("r")
        .label("pod", "a-0")
        .holds(Partition::new("t", 9))
        .token("secret")
}

impl World {
    async fn call(&mut self) -> String {
        self.call_with_owned().await.0
    }

    async fn call_with_owned(&mut self) -> (String, Option<Owned>) {
        timeout(PATIENCE, self.calls.recv()).await.expect("the handler is called").expect("it runs")
    }

    async fn finished(&self) -> Result<(), RunError> {
        timeout(PATIENCE, self.running.finished()).await.expect("it ends")
    }
}

/// A status as the assigner sends it to those whose name another process has.
fn fenced() -> Status {
    let mut status = Status::new(Code::Aborted, "no");
    status.metadata_mut().insert("kohort-refusal", MetadataValue::from_static("fenced"));
    status
}

#[tokio::test]
async fn a_handoff_in_and_out_carries_ids_and_epochs() {
    let mut assigner = Assigner::start(Script::default());
    let mut world = start(&[&assigner]);
    let stream = assigner.stream().await;
    let request = &stream.request;
    assert_eq!((request.consumer_name.as_str(), request.group.as_str()), ("a", "g"));
    assert_eq!((request.topic.as_str(), request.topics.as_slice()), ("t", &["u".to_owned()][..]));
    assert_eq!((request.protocol_version, request.session.len()), (2, 26));
    assert_eq!((request.capacity, request.rack.as_str(), request.holds.len()), (2, "r", 1));
    stream.nonsense().await;
    let stream = assigner.stream().await;
    assert_eq!(stream.request, *request, "the same session");

    stream.snapshot(&[(0, 3)]).await;
    let (call, owned) = world.call_with_owned().await;
    assert_eq!(call, "assign t-0 3");
    let owned = owned.unwrap();
    assert!(owned.is_mine());
    stream.nonsense().await;
    stream.warm(1, "h1", 8).await;
    assert_eq!(world.call().await, "warm t-1 of other");
    let Heard::Progress(progress) = assigner.heard().await else { panic!("no progress") };
    assert_eq!((progress.handoff_id.as_str(), progress.done, progress.total), ("h1", 1, 2));
    world.warm.add_permits(1);
    let Heard::Ready(ready) = assigner.heard().await else { panic!("not ready") };
    assert_eq!((ready.partition, ready.handoff_id, ready.epoch), (Some(place(1)), "h1".to_owned(), 8));
    assert_eq!((&ready.session, ready.group.as_str()), (&stream.request.session, "g"));
    stream.assigned(1, 8).await;
    assert_eq!(world.call().await, "assign t-1 8");

    stream.release(0, "h2", 4).await;
    assert_eq!(world.call().await, "release t-0");
    let Heard::Released(released) = assigner.heard().await else { panic!("not released") };
    assert_eq!(
        (released.partition, released.handoff_id, released.epoch),
        (Some(place(0)), "h2".to_owned(), 4)
    );
    assert!(!owned.is_mine());
    timeout(PATIENCE, owned.lost()).await.unwrap();
    let held = world.running.ownership().owned();
    assert_eq!(held.into_iter().collect::<Vec<_>>(), [(Partition::new("t", 1), 8)]);
    stream.unassigned(1).await;
    assert_eq!(world.call().await, "revoke t-1");
}

#[tokio::test]
async fn after_a_lost_stream_it_resumes_at_another_instance() {
    let mut first = Assigner::start(Script::default());
    let mut second = Assigner::start(Script::default());
    let mut world = start(&[&first, &second]);
    let stream = first.stream().await;
    let session = stream.request.session.clone();
    stream.snapshot(&[(0, 3), (1, 3)]).await;
    let mut calls = [world.call().await, world.call().await];
    calls.sort();
    assert_eq!(calls, ["assign t-0 3", "assign t-1 3"]);
    stream.warm(5, "w", 9).await;
    assert_eq!(world.call().await, "warm t-5 of other");
    drop(stream);
    drop(first);

    let stream = second.stream().await;
    assert_eq!(stream.request.session, session);
    stream.snapshot(&[(1, 3), (2, 1)]).await;
    stream.warm(5, "w", 9).await;
    let mut calls = [world.call().await, world.call().await];
    calls.sort();
    assert_eq!(calls, ["assign t-2 1", "revoke t-0"]);
    world.warm.add_permits(1);
    let ready = loop {
        match second.heard().await {
            Heard::Ready(ready) => break ready,
            Heard::Progress(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ready.handoff_id, "w", "warming went on");
}

#[tokio::test]
async fn acknowledgements_are_repeated_until_they_are_answered() {
    let refusals = vec![Status::unavailable("later"), Status::aborted("busy")];
    let mut assigner = Assigner::start(Script { refusals, ..Script::default() });
    let mut world = start(&[&assigner]);
    let stream = assigner.stream().await;
    stream.snapshot(&[(0, 3)]).await;
    assert_eq!(world.call().await, "assign t-0 3");
    stream.release(0, "h", 4).await;
    assert_eq!(world.call().await, "release t-0");
    for _ in 0..3 {
        let Heard::Released(released) = assigner.heard().await else { panic!("not released") };
        assert_eq!((released.handoff_id.as_str(), released.epoch), ("h", 4));
    }
    stream.assigned(0, 3).await;
    stream.assigned(0, 5).await;
    assert_eq!(
        world.call().await,
        "assign t-0 5",
        "what was given away does not come back under the old epoch"
    );
}

#[tokio::test]
async fn without_answers_everything_stops_by_itself_and_begins_anew_later() {
    let short = Script {
        lease_ttl: Duration::from_secs(6),
        keep_alive_interval: Duration::from_millis(500),
        ..Script::default()
    };
    let mut assigner = Assigner::start(short);
    let mut world = start(&[&assigner]);
    let stream = assigner.stream().await;
    stream.snapshot(&[(0, 3)]).await;
    let (call, owned) = world.call_with_owned().await;
    assert_eq!(call, "assign t-0 3");
    let owned = owned.unwrap();
    // Nobody answers, and nobody takes new streams either: what registers waits for its snapshot.
    assigner.set(|script| script.keep_alive = None);
    timeout(PATIENCE, owned.lost()).await.unwrap();
    assert!(!owned.is_mine());
    assert_eq!(world.call().await, "revoke t-0");
    drop(stream);

    assigner.set(|script| {
        script.keep_alive = Some(Ok(()));
        script.lease_ttl = Duration::from_secs(30);
    });
    let before = assigner.script.lock().unwrap().keep_alives;
    // What registered meanwhile may be given up before it gets its snapshot.
    let mut streams = Vec::new();
    let call = loop {
        tokio::select! {
            stream = assigner.stream() => {
                stream.snapshot(&[(0, 3)]).await;
                streams.push(stream);
            }
            call = world.call() => break call,
        }
    };
    assert_eq!(call, "assign t-0 3");
    assert!(world.running.ownership().is_mine(&Partition::new("t", 0)));
    assert!(!owned.is_mine(), "what was begun before stays lost");
    timeout(PATIENCE, async {
        while assigner.script.lock().unwrap().keep_alives < before + 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it says that it lives");
}

#[tokio::test]
async fn a_fenced_consumer_stops_tells_and_ends() {
    let mut assigner = Assigner::start(Script::default());
    let mut world = start(&[&assigner]);
    let stream = assigner.stream().await;
    let session = stream.request.session.clone();
    stream.snapshot(&[(0, 3)]).await;
    assert_eq!(world.call().await, "assign t-0 3");
    stream.end(fenced()).await;
    let mut calls = [world.call().await, world.call().await];
    calls.sort();
    assert_eq!(calls, ["fenced", "revoke t-0"]);
    let Heard::Deregister(said) = assigner.heard().await else { panic!("it says nothing") };
    assert_eq!((said.session, said.has_stopped), (session, true));
    assert_eq!(world.finished().await, Err(RunError::Fenced { name: "a".to_owned() }));
}

#[tokio::test]
async fn a_consumer_that_keeps_alive_in_vain_is_fenced_too() {
    let script = Script { keep_alive_interval: Duration::from_millis(50), ..Script::default() };
    let mut assigner = Assigner::start(script);
    let world = start(&[&assigner]);
    let stream = assigner.stream().await;
    let text = "another process has registered as a; this one has to stop";
    assigner.set(|script| script.keep_alive = Some(Err(Status::aborted(text))));
    stream.snapshot(&[]).await;
    assert_eq!(world.finished().await, Err(RunError::Fenced { name: "a".to_owned() }));
}

#[tokio::test]
async fn leaving_drains_first() {
    let mut assigner = Assigner::start(Script { drains: true, ..Script::default() });
    let mut world = start(&[&assigner]);
    let stream = assigner.stream().await;
    stream.snapshot(&[(0, 3), (1, 3)]).await;
    let _ = (world.call().await, world.call().await);
    let leaving = async {
        let Heard::Deregister(said) = assigner.heard().await else { panic!("it does not want to leave") };
        assert!(!said.has_stopped);
        stream.release(0, "h", 4).await;
        assert!(matches!(assigner.heard().await, Heard::Released(_)));
        // The other consumers are gone.
        assigner.set(|script| script.drains = false);
        loop {
            match assigner.heard().await {
                Heard::Deregister(said) if said.has_stopped => break,
                Heard::Deregister(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let (left, ()) = tokio::join!(timeout(PATIENCE, world.running.deregister()), leaving);
    assert_eq!(left.expect("it leaves"), Ok(()));
    let mut calls = [world.call().await, world.call().await];
    calls.sort();
    assert_eq!(calls, ["release t-0", "release t-1"]);
    assert!(world.running.ownership().owned().is_empty());
}

#[tokio::test]
async fn stopping_releases_and_says_so_even_when_the_handle_is_only_dropped() {
    let mut assigner = Assigner::start(Script::default());
    let World { running, mut calls, .. } = start(&[&assigner]);
    let stream = assigner.stream().await;
    stream.snapshot(&[(0, 3)]).await;
    let (assigned, _) = timeout(PATIENCE, calls.recv()).await.unwrap().unwrap();
    assert_eq!(assigned, "assign t-0 3");
    drop(running);
    let (released, _) = timeout(PATIENCE, calls.recv()).await.unwrap().unwrap();
    assert_eq!(released, "release t-0");
    let Heard::Deregister(said) = assigner.heard().await else { panic!("it says nothing") };
    assert!(said.has_stopped);
}

#[tokio::test]
async fn a_consumer_with_the_wrong_token_ends_with_the_reason() {
    let assigner = Assigner::start(Script::default());
    let world = start_as(describe().token("guessed").endpoints([assigner.endpoint()]));
    let Err(RunError::Refused { reason }) = world.finished().await else { panic!("it goes on") };
    assert!(reason.contains("a token is needed"), "{reason}");
}

#[tokio::test]
async fn tls_is_spoken_with_those_whom_the_authority_vouches_for() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let identity = Identity::from_pem(own.cert.pem(), own.signing_key.serialize_pem());
    let mut assigner = Assigner::start_with_tls(Script::default(), identity);
    let endpoint = format!("https://{}", assigner.address);
    let trusting = |ca: String| {
        let tls = Tls { ca: ca.into_bytes(), identity: None, domain: Some("localhost".to_owned()) };
        start_as(describe().tls(tls).endpoints([endpoint.clone()]))
    };
    let distrustful = trusting(other.cert.pem());
    let mut world = trusting(own.cert.pem());
    let stream = assigner.stream().await;
    stream.snapshot(&[(0, 3)]).await;
    assert_eq!(world.call().await, "assign t-0 3");
    assert!(distrustful.running.ownership().owned().is_empty());
}

#[tokio::test]
async fn a_consumer_that_the_assigner_will_never_take_ends_with_the_reason() {
    let mut assigner = Assigner::start(Script::default());
    let world = start(&[&assigner]);
    assigner.stream().await.end(Status::invalid_argument("consumer_name: no")).await;
    let Err(RunError::Refused { reason }) = world.finished().await else { panic!("it goes on") };
    assert!(reason.contains("consumer_name: no"), "{reason}");
}
