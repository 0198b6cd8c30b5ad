"""A member of a group with confluent-kafka."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

import member
from member import say


def main():
    arguments = member.Arguments()
    told = member.leave_when_told()
    settings = {
        "bootstrap.servers": arguments.bootstrap,
        "group.id": arguments.group,
        "partition.assignment.strategy": arguments.assignor,
        "session.timeout.ms": arguments.session_ms,
        "heartbeat.interval.ms": arguments.heartbeat_ms,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
    }
    if arguments.instance:
        settings["group.instance.id"] = arguments.instance
    consumer = Consumer(settings)
    progress = member.Progress()

    def commit(offsets):
        if not offsets:
            return
        wanted = [TopicPartition(arguments.topic, partition, offset) for partition, offset in offsets.items()]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            say("trouble", "commit:", error)
            progress.not_committed()
            return
        for found in done:
            if found.error:
                say("trouble", "commit:", found.error)
        progress.committed({found.partition: found.offset for found in done if not found.error})

    def on_assign(_consumer, assigned):
        say("assigned", member.partitions(found.partition for found in assigned))

    def on_revoke(_consumer, revoked):
        numbers = [found.partition for found in revoked]
        commit(progress.of(numbers))
        progress.forget(numbers)
        say("revoked", member.partitions(numbers))

    def on_lost(_consumer, lost):
        numbers = [found.partition for found in lost]
        progress.forget(numbers)
        say("lost", member.partitions(numbers))

    consumer.subscribe([arguments.topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not told.is_set():
        message = consumer.poll(0.05)
        if message is not None:
            if message.error():
                say("trouble", message.error())
            else:
                progress.record(message.partition(), message.offset(), message.value())
        if progress.is_due():
            commit(dict(progress.next))
    consumer.close()
    say("left")


if __name__ == "__main__":
    main()
