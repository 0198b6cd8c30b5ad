//! A rail around a rail, with a span for each op.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use coordination::op::Op;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState,
    Tracer,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use rail::{Answer, Carrier, Rail, Roster, TraceContext};

/// Records a span for each op, from its call until its reply is there, and tells the span to whom it hands the op.
pub(super) struct TracedRail {
    rail: Arc<dyn Rail>,
    tracer: SdkTracer,
    name: fn(&Op) -> &'static str,
}

impl TracedRail {
    pub(super) fn new(rail: Arc<dyn Rail>, tracer: SdkTracer, name: fn(&Op) -> &'static str) -> Self {
        Self { rail, tracer, name }
    }

    fn begin(&self, carrier: &Carrier, op: &Op) -> Span {
        let (kind, parent) = match carrier.trace {
            Some(trace) => (SpanKind::Server, Context::new().with_remote_span_context(known(trace))),
            None => (SpanKind::Client, Context::new()),
        };
        let mut attributes = vec![KeyValue::new("kohort.org", carrier.org().to_string())];
        if let Some(client_id) = carrier.client_id() {
            attributes.push(KeyValue::new("messaging.client.id", client_id.to_string()));
        }
        if let Some(group) = group(op) {
            attributes.push(KeyValue::new("messaging.consumer.group.name", group.to_owned()));
        }
        let builder = SpanBuilder::from_name((self.name)(op)).with_kind(kind).with_attributes(attributes);
        self.tracer.build_with_context(builder, &parent)
    }
}

// It gathers nothing: each op has a span of its own, which is told with it. Nor does it pass on what a gateway keeps: a
// fetch under a span is read whole, and what is kept is still not sent again.
impl Rail for TracedRail {
    fn call(&self, carrier: &Carrier, op: Op) -> Answer {
        let span = self.begin(carrier, &op);
        let mut carrier = carrier.clone();
        carrier.trace = Some(told(span.span_context()));
        // The span ends when it is dropped: now, with the reply, or when nobody waits for that any more.
        match self.rail.call(&carrier, op) {
            Answer::Now(reply) => Answer::Now(reply),
            Answer::Gated(reply) => {
                let reply = Box::pin(reply);
                Answer::Later(Box::pin(Spanned { reply, span: Some(span) }))
            }
            Answer::Later(reply) => Answer::Later(Box::pin(Spanned { reply, span: Some(span) })),
            Answer::Owed(reply) => {
                let reply = Box::pin(reply);
                Answer::Sent(Box::pin(Spanned { reply, span: Some(span) }))
            }
            Answer::Sent(reply) => Answer::Sent(Box::pin(Spanned { reply, span: Some(span) })),
        }
    }

    fn leave(&self, carrier: &Carrier) {
        self.rail.leave(carrier);
    }

    fn roster(&self) -> Option<Arc<Roster>> {
        self.rail.roster()
    }
}

/// A reply that ends a span.
struct Spanned<T: ?Sized> {
    span: Option<Span>,
    reply: Pin<Box<T>>,
}

impl<T: Future + ?Sized> Future for Spanned<T> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<T::Output> {
        let reply = ready!(self.reply.as_mut().poll(context));
        drop(self.span.take());
        Poll::Ready(reply)
    }
}

fn known(trace: TraceContext) -> SpanContext {
    let flags = if trace.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace_id, span_id) = (TraceId::from(trace.trace_id), SpanId::from(trace.span_id));
    SpanContext::new(trace_id, span_id, flags, true, TraceState::default())
}

fn told(span: &SpanContext) -> TraceContext {
    TraceContext {
        trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
        span_id: u64::from_be_bytes(span.span_id().to_bytes()),
        is_sampled: span.is_sampled(),
    }
}

/// The group that an op is about.
fn group(op: &Op) -> Option<&str> {
    match op {
        Op::JoinGroup(op) => Some(&op.group),
        Op::SyncGroup(op) => Some(&op.group),
        Op::Heartbeat(op) => Some(&op.group),
        Op::LeaveGroup(op) => Some(&op.group),
        Op::OffsetCommit(op) => Some(&op.group),
        Op::OffsetDelete(op) => Some(&op.group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use coordination::op;
    use coordination::reply::{self, Reply};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
    use tokio::sync::{Mutex, oneshot};

    use super::super::names;
    use super::*;

    /// Answers heartbeats at once and joins when it is told to.
    #[derive(Default)]
    struct Scripted {
        parked: Mutex<Option<oneshot::Receiver<()>>>,
    }

    impl Rail for Scripted {
        fn call(&self, _: &Carrier, op: Op) -> Answer {
            if matches!(op, Op::Heartbeat(_)) {
                return Reply::Heartbeat(reply::Heartbeat { error: None }).into();
            }
            let parked = self.parked.try_lock().expect("one at a time").take().expect("one join");
            Answer::Later(Box::pin(async move {
                let _ = parked.await;
                Reply::Enter(None)
            }))
        }

        fn leave(&self, _: &Carrier) {}
    }

    fn heartbeat() -> Op {
        Op::Heartbeat(Arc::new(op::Heartbeat {
            group: "billing".to_owned(),
            generation: 1,
            member_id: String::new(),
            instance_id: None,
        }))
    }

    fn both_sides(rail: Arc<dyn Rail>) -> (TracedRail, InMemorySpanExporter) {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let tracer = provider.tracer("test");
        let broker = Arc::new(TracedRail::new(rail, tracer.clone(), names::at_broker));
        (TracedRail::new(broker, tracer, names::at_gateway), exporter)
    }

    fn carrier() -> Carrier {
        Carrier::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Arc::from("PLAINTEXT"))
    }

    fn finished(exporter: &InMemorySpanExporter) -> Vec<SpanData> {
        exporter.get_finished_spans().expect("spans")
    }

    #[tokio::test]
    async fn the_brokers_span_lies_under_the_gateways() {
        let (rail, exporter) = both_sides(Arc::new(Scripted::default()));
        let _ = rail.call(&carrier(), heartbeat()).reply().await;
        let spans = finished(&exporter);
        let [broker, gateway] = spans.as_slice() else { panic!("two spans: {spans:?}") };
        assert_eq!(gateway.name, "kohort.gateway.group.heartbeat");
        assert_eq!(broker.name, "kohort.broker.group.heartbeat");
        assert_eq!(broker.parent_span_id, gateway.span_context.span_id());
        assert_eq!(broker.span_context.trace_id(), gateway.span_context.trace_id());
    }

    #[tokio::test]
    async fn a_parked_joins_span_lasts_until_it_is_answered() {
        let (answer, parked) = oneshot::channel();
        let (rail, exporter) = both_sides(Arc::new(Scripted { parked: Mutex::new(Some(parked)) }));
        let waiting = rail.call(&carrier(), Op::Enter);
        assert!(finished(&exporter).is_empty());
        answer.send(()).expect("it waits");
        let _ = waiting.reply().await;
        assert_eq!(finished(&exporter).len(), 2);
    }

    #[tokio::test]
    async fn a_span_ends_when_nobody_waits_for_the_answer_any_more() {
        let (_answer, parked) = oneshot::channel::<()>();
        let (rail, exporter) = both_sides(Arc::new(Scripted { parked: Mutex::new(Some(parked)) }));
        drop(rail.call(&carrier(), Op::Enter));
        assert_eq!(finished(&exporter).len(), 2);
    }
}
