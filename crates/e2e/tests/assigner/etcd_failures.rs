//! An etcd that loses its leader, or forgets its past.

use bytes::Bytes;
use e2e::etcd::Etcd;
use e2e::relay::Relay;

use crate::worker::Worker;
use crate::world::World;

#[test]
fn handoffs_go_on_when_the_leader_of_etcd_is_killed() {
    let mut world = World::start_on_three(2, 12);
    let a = world.worker("a", 0);
    let b = world.worker("b", 1);
    world.rest(&[&a, &b]);
    let mut workers = vec![a, b];
    for round in 0..3 {
        // Handoffs in all phases.
        let name = format!("newcomer-{round}");
        let description = world.consumer(&name, round % 2);
        let newcomer = Worker::start_held(&world.journal, &name, description, [false, true]);
        workers[0].hands.may_let_go(false);
        world.until("it is to warm up", || newcomer.hands.warming().len() >= 2);
        newcomer.hands.may_get_warm(true);
        let leader = world.cluster.leader(&[0, 1, 2]).unwrap();
        match round {
            0 | 1 => world.cluster.nodes[leader].kill().unwrap(),
            _ => world.cluster.nodes[leader].pause().unwrap(),
        }
        workers[0].hands.may_let_go(true);
        workers.push(newcomer);
        world.rest(&workers.iter().collect::<Vec<_>>());
        match round {
            0 | 1 => world.cluster.nodes[leader].restart().unwrap(),
            _ => world.cluster.nodes[leader].resume().unwrap(),
        }
    }
    workers.pop().unwrap().leave();
    world.rest(&workers.iter().collect::<Vec<_>>());
}

#[test]
fn without_etcd_consumers_stop_in_time_and_go_on_when_it_is_back() {
    let mut world = World::start(2, 6);
    let a = world.worker("a", 0);
    let b = world.worker("b", 1);
    world.rest(&[&a, &b]);
    world.cluster.nodes[0].kill().unwrap();
    world.until("all have stopped", || [&a, &b].iter().all(|it| world.journal.working(&it.life).is_empty()));
    world.cluster.nodes[0].restart().unwrap();
    world.rest(&[&a, &b]);
    let c = world.worker("c", 0);
    world.rest(&[&a, &b, &c]);
}

const RESYNCS: &str = "kohort_assigner_resyncs_total";

/// Fills etcd with changes of a group that has no consumers, and makes it forget them.
fn write_a_lot_and_compact(world: &World) {
    // More than fits into all buffers on the way.
    let value = format!(r#"{{"version":1,"partitions":1,"padding":"{}"}}"#, "x".repeat(64 << 10));
    for number in 0..150 {
        world.put(
            "/kafka-assigner/noise/config/topics/noise",
            Bytes::from(format!("{value}{}", " ".repeat(number))),
        );
    }
    let revision = world.revision();
    world.cluster.nodes.iter().for_each(|node: &Etcd| node.compact(revision).unwrap());
}

#[test]
fn an_instance_that_was_cut_off_reads_anew_what_etcd_has_forgotten() {
    let world = World::start(2, 6);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", leader);
    world.rest(&[&a]);
    for part in [Relay::cut, Relay::freeze] {
        let before = world.metric(other, RESYNCS);
        part(&world.relays[other]);
        let b = world.worker("b", leader);
        world.rest(&[&a, &b]);
        write_a_lot_and_compact(&world);
        world.relays[other].mend();
        world.until("it has read everything anew", || world.metric(other, RESYNCS) > before);
        // What it tells this one is true. Until then it sends consumers to others.
        let c = world.worker("c", other);
        world.rest(&[&a, &b, &c]);
        assert_eq!(world.metric(other, RESYNCS), before + 1, "it has done so once");
        b.leave();
        c.leave();
        world.rest(&[&a]);
    }
}

#[test]
fn a_consumer_misses_nothing_when_its_instance_stood_still_over_a_compaction() {
    let world = World::start(2, 6);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", other);
    world.rest(&[&a]);
    a.hands.may_let_go(false);
    let b = world.worker("b", leader);
    world.until("a is to let go of three", || a.hands.releasing().len() == 3);
    // Its watch stops in the middle of the handoffs, while consumers find it alive, or not for much longer.
    world.assigners[other].pause().unwrap();
    a.hands.may_let_go(true);
    write_a_lot_and_compact(&world);
    world.assigners[other].resume().unwrap();
    world.rest(&[&a, &b]);
    world.until("it has read everything anew", || world.metric(other, RESYNCS) > 0);
    let c = world.worker("c", other);
    world.rest(&[&a, &b, &c]);
}
