"""A member of a group with aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

import member
from member import say

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, progress, commit, lock):
        self.progress = progress
        self.commit = commit
        self.lock = lock
        self.owned = []
        self.leaving = False

    async def on_partitions_assigned(self, assigned):
        if assigned and not self.leaving:
            self.owned = [found.partition for found in assigned]
            say("assigned", member.partitions(self.owned))

    async def on_partitions_revoked(self, _revoked):
        # aiokafka rebalances beside the program's own work, which must not go on while partitions go away.
        async with self.lock:
            await self.give_up()

    async def give_up(self):
        await self.commit(self.progress.of(self.owned))
        self.progress.forget(self.owned)
        if self.owned:
            say("revoked", member.partitions(self.owned))
        self.owned = []


async def main():
    arguments = member.Arguments()
    told = member.leave_when_told()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_instance_id=arguments.instance,
        partition_assignment_strategy=[ASSIGNORS[arguments.assignor]],
        session_timeout_ms=arguments.session_ms,
        heartbeat_interval_ms=arguments.heartbeat_ms,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    progress = member.Progress()
    lock = asyncio.Lock()

    async def commit(offsets):
        if not offsets:
            return
        try:
            await consumer.commit(
                {TopicPartition(arguments.topic, partition): offset for partition, offset in offsets.items()}
            )
        except KafkaError as error:
            say("trouble", "commit:", repr(error))
            progress.not_committed()
            return
        progress.committed(offsets)

    listener = Listener(progress, commit, lock)
    consumer.subscribe([arguments.topic], listener=listener)
    while True:
        try:
            await consumer.start()
            break
        except KafkaError as error:
            # The broker may be away.
            say("trouble", "start:", repr(error))
            await asyncio.sleep(0.05)
    def assignment():
        # Each rebalance makes a new one, for which aiokafka has no public name.
        return consumer._subscription.subscription.assignment

    while not told.is_set():
        # Not under the lock: a rebalance waits for the listener, and this for the rebalance.
        found = await consumer.getmany(timeout_ms=50, max_records=member.COMMIT_RECORDS)
        fetched_under = assignment()
        while found and not listener.owned and assignment() is fetched_under:
            # Either it has just been given up, or the listener is about to be told that it is there.
            await asyncio.sleep(0.001)
        async with lock:
            # What was fetched before a rebalance is fetched again after it.
            if listener.owned and assignment() is fetched_under:
                for where, records in found.items():
                    for record in records:
                        progress.record(where.partition, record.offset, record.value)
            if progress.is_due():
                await commit(dict(progress.next))
    async with lock:
        listener.leaving = True
        await listener.give_up()
    await consumer.stop()
    say("left")


if __name__ == "__main__":
    asyncio.run(main())
