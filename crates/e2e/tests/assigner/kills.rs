//! Instances that are killed.

use crate::worker::Worker;
use crate::world::{LEASE, World};

/// Whom it hits.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// It leads, and holds no stream.
    Leader,
    /// It holds the stream of the one who gives partitions away.
    HostOfOwner,
    /// It holds the stream of the one who gets them.
    HostOfTarget,
    /// It leads, and holds both streams.
    LeaderAndHost,
}

/// How far the handoffs have come.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Warming,
    /// The target is ready, and the owner has not let go yet.
    Releasing,
    /// The owner is letting go.
    LettingGo,
}

#[test]
fn whichever_instance_is_killed_at_whatever_moment_the_handoffs_end_well() {
    let mut world = World::start(3, 4);
    for victim in [Victim::Leader, Victim::HostOfOwner, Victim::HostOfTarget, Victim::LeaderAndHost] {
        for moment in [Moment::Warming, Moment::Releasing, Moment::LettingGo] {
            println!("{victim:?} is killed: {moment:?}");
            kill(&mut world, victim, moment);
        }
    }
}

fn kill(world: &mut World, victim: Victim, moment: Moment) {
    let leader = world.wait_for_leader(&[0, 1, 2]);
    let (second, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let (victim, owners_home, targets_home) = match victim {
        Victim::Leader => (leader, second, third),
        Victim::HostOfOwner => (second, second, third),
        Victim::HostOfTarget => (third, second, third),
        Victim::LeaderAndHost => (leader, leader, leader),
    };
    let owner = world.worker("owner", owners_home);
    world.rest(&[&owner]);
    owner.hands.may_let_go(false);
    let description = world.consumer("target", targets_home);
    let target = Worker::start_held(&world.journal, "target", description, [false, true]);
    world.until("it is to warm two up", || target.hands.warming().len() == 2);
    if matches!(moment, Moment::Releasing | Moment::LettingGo) {
        target.hands.may_get_warm(true);
        world.until("it is to let go of two", || owner.hands.releasing().len() == 2);
    }
    if matches!(moment, Moment::LettingGo) {
        owner.hands.may_let_go(true);
    }
    world.assigners[victim].kill().unwrap();
    target.hands.may_get_warm(true);
    owner.hands.may_let_go(true);
    world.rest(&[&owner, &target]);
    world.assigners[victim].restart().unwrap();
    target.stop();
    owner.stop();
    world.rest(&[]);
}

#[test]
fn without_any_instance_consumers_stop_in_time_and_go_on_when_there_is_one() {
    let mut world = World::start(2, 6);
    let workers = [world.worker("a", 0), world.worker("b", 1), world.worker("c", 0)];
    let workers: Vec<&Worker> = workers.iter().collect();
    world.rest(&workers);
    for assigner in &mut world.assigners {
        assigner.kill().unwrap();
    }
    // Well before etcd would let their leases end.
    let killed = std::time::Instant::now();
    world.until("all have stopped", || workers.iter().all(|it| world.journal.working(&it.life).is_empty()));
    println!(
        "all consumers have stopped {:?} after the last instance, of a lease of {LEASE:?}",
        killed.elapsed()
    );
    for assigner in &mut world.assigners {
        assigner.restart().unwrap();
    }
    world.rest(&workers);
}
