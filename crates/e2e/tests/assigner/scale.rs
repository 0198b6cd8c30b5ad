//! Many consumers and many partitions.

use std::time::{Duration, Instant};

use assigner_client::Running;
use tokio::runtime::Runtime;

use crate::state::State;
use crate::worker::{Hands, Worker, start};
use crate::world::World;

/// Starts these at once.
fn join(world: &World, workers: &mut Vec<Worker>, count: usize) {
    for number in workers.len()..count {
        workers.push(world.worker(&format!("consumer-{number:02}"), number % 2));
    }
}

fn rest(world: &World, workers: &[Worker]) -> State {
    world.rest(&workers.iter().collect::<Vec<_>>())
}

#[test]
fn twenty_consumers_share_forty_partitions_evenly_and_no_more_moves_than_must() {
    let partitions: usize = 40;
    // Leases that a busy machine keeps, and time for all to come before it is decided who gets what.
    let settings = [
        ("consumer_lease_ttl_secs", "30"),
        ("consumer_keepalive_interval_secs", "5"),
        ("rebalance_debounce_interval_secs", "3"),
    ];
    let world = World::start_with(2, 40, &settings);
    let mut workers = Vec::new();
    join(&world, &mut workers, 1);
    let mut before = rest(&world, &workers);
    for count in [2, 5, 12, 20] {
        let (old, new) = (workers.len(), count - workers.len());
        join(&world, &mut workers, count);
        let after = rest(&world, &workers);
        // Newcomers get an even share, and the remainder stays with those who were there, if they are enough.
        let least = new * (partitions / count) + (partitions % count).saturating_sub(old);
        assert_eq!(after.moved_since(&before), least, "from {old} to {count}");
        before = after;
    }
    for count in [13, 6, 3, 1] {
        let leaving = workers.split_off(count);
        let names: Vec<&str> = leaving.iter().map(Worker::name).collect();
        let counts = before.counts();
        let owned: usize = names.iter().map(|name| counts[*name]).sum();
        std::thread::scope(|scope| {
            for (index, worker) in leaving.into_iter().enumerate() {
                // Some hand over, some do not care.
                scope.spawn(move || if index % 3 == 2 { worker.stop() } else { worker.leave() });
            }
        });
        let after = rest(&world, &workers);
        assert_eq!(after.moved_since(&before), owned, "down to {count}");
        before = after;
    }
}

#[test]
fn two_hundred_consumers_share_ten_thousand_partitions() {
    // A lease that a busy machine keeps, and time for all to come before the first partition is given away.
    let settings = [
        ("consumer_lease_ttl_secs", "30"),
        ("consumer_keepalive_interval_secs", "5"),
        ("rebalance_debounce_interval_secs", "2"),
    ];
    let world = World::start_with(2, 10_000, &settings);
    let runtime = Runtime::new().unwrap();
    let join = |number: usize| -> (Hands, Running) {
        let _entered = runtime.enter();
        let name = format!("consumer-{number:03}");
        start(&world.journal, &name, world.consumer(&name, number % 2), [true, true])
    };
    let rest = |consumers: &[(Hands, Running)]| {
        world.rest_of(&consumers.iter().map(|(hands, _)| hands.life()).collect::<Vec<_>>())
    };
    let began = Instant::now();
    let mut consumers: Vec<_> = (0..200).map(join).collect();
    let all = rest(&consumers);
    println!(
        "200 consumers work on all of 10,000 partitions after {:?}, 2 s of them debounce",
        began.elapsed()
    );

    let began = Instant::now();
    let (hands, running) = consumers.remove(17);
    runtime.block_on(running.deregister()).unwrap();
    drop((hands, running));
    let fewer = rest(&consumers);
    println!("one has handed 50 partitions over and left after {:?}", began.elapsed());
    assert_eq!(fewer.moved_since(&all), 50);

    let began = Instant::now();
    consumers.push(join(200));
    let again = rest(&consumers);
    println!("another has joined and got 50 partitions after {:?}", began.elapsed());
    assert_eq!(again.moved_since(&fewer), 50);
    // Nobody waits for farewells.
    runtime.shutdown_timeout(Duration::ZERO);
}
