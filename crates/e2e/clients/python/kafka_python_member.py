"""A member of a group with kafka-python."""

import time

from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

import member
from member import say

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(AsyncConsumerRebalanceListener):
    def __init__(self, progress, commit):
        self.progress = progress
        self.commit = commit
        self.owned = set()

    async def on_partitions_assigned(self, assigned):
        numbers = {found.partition for found in assigned}
        self.owned |= numbers
        if numbers:
            say("assigned", member.partitions(numbers))

    def give_up(self, partitions):
        # A rebalance that does not come to its end tells of the same partitions again.
        numbers = {found.partition for found in partitions} & self.owned
        self.owned -= numbers
        return numbers

    async def on_partitions_revoked(self, revoked):
        numbers = self.give_up(revoked)
        if not numbers:
            return
        offsets = self.progress.of(numbers)
        if offsets:
            try:
                await self.commit(offsets)
                self.progress.committed(offsets)
            except KafkaError as error:
                say("trouble", "commit:", repr(error))
        self.progress.forget(numbers)
        say("revoked", member.partitions(numbers))

    async def on_partitions_lost(self, lost):
        numbers = self.give_up(lost)
        if not numbers:
            return
        self.progress.forget(numbers)
        say("lost", member.partitions(numbers))


def main():
    arguments = member.Arguments()
    told = member.leave_when_told()
    consumer = member.when_the_broker_is_there(lambda: KafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_instance_id=arguments.instance,
        partition_assignment_strategy=[ASSIGNORS[arguments.assignor]],
        session_timeout_ms=arguments.session_ms,
        heartbeat_interval_ms=arguments.heartbeat_ms,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=200,
    ), KafkaError)
    progress = member.Progress()

    def named(offsets):
        return {
            TopicPartition(arguments.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }

    def commit(offsets):
        if not offsets:
            return
        try:
            consumer.commit(named(offsets), timeout_ms=3000)
        except KafkaError as error:
            say("trouble", "commit:", repr(error))
            progress.not_committed()
            return
        progress.committed(offsets)

    # kafka-python calls a listener from the thread that talks to the broker, where it must not block.
    listener = Listener(progress, lambda offsets: consumer.commit_async(named(offsets)))
    consumer.subscribe([arguments.topic], listener=listener)
    while not told.is_set():
        try:
            found = consumer.poll(timeout_ms=50, max_records=member.COMMIT_RECORDS)
        except KafkaError as error:
            # The broker may be away.
            say("trouble", "poll:", repr(error))
            time.sleep(0.05)
            continue
        for where, records in found.items():
            for record in records:
                progress.record(where.partition, record.offset, record.value)
        if progress.is_due():
            commit(dict(progress.next))
    consumer.close()
    say("left")


if __name__ == "__main__":
    main()
