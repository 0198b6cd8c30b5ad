"""The scenarios with confluent-kafka."""

import time

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

import scenarios
from scenarios import Record


class Confluent(scenarios.Driver):
    def __init__(self, bootstrap):
        self.bootstrap = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.bootstrap) if bootstrap else None

    def version(self):
        return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def create(self, topic, partitions, config):
        [future] = self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values()
        future.result(20)

    def partitions(self, topic):
        found = self.admin.list_topics(timeout=10).topics.get(topic)
        return None if found is None else len(found.partitions)

    def config(self, topic):
        [future] = self.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in future.result(20).items()}

    def produce(self, topic, records, codec="none", idempotent=False):
        producer = Producer(self.bootstrap | {
            "compression.type": codec, "acks": "all", "linger.ms": 5, "enable.idempotence": idempotent,
        })
        failures = []

        def delivered(error, _message):
            if error is not None:
                failures.append(error)

        for record in records:
            more = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(topic, value=record.value, key=record.key, partition=record.partition,
                             headers=record.headers, on_delivery=delivered, **more)
        if producer.flush(30) or failures:
            raise AssertionError(f"not delivered: {failures[:3]}")

    def consumer(self):
        # librdkafka wants a group id even for assigned partitions; nothing is committed, so no group comes to be.
        return Consumer(self.bootstrap | {
            "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error", "check.crcs": True,
            "fetch.wait.max.ms": 100,
        })

    def read(self, topic, partition, start, until):
        consumer = self.consumer()
        found = []
        deadline = time.monotonic() + scenarios.READ_WITHIN
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            while start < until:
                for message in consumer.consume(500, 0.5):
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    if message.offset() >= until:
                        return found
                    start = message.offset() + 1
                    found.append(Record(message.value(), message.key(), partition, message.timestamp()[1],
                                        [(k, v) for k, v in message.headers() or []], message.offset()))
                if time.monotonic() > deadline:
                    raise AssertionError(f"read to {start} of {until}")
        finally:
            consumer.close()
        return found

    def bounds(self, topic, partition):
        consumer = self.consumer()
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10, cached=False)
        finally:
            consumer.close()

    def at_time(self, topic, partition, timestamp):
        consumer = self.consumer()
        try:
            [found] = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=10)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()

    def delete_records(self, topic, partition, before):
        [future] = self.admin.delete_records([TopicPartition(topic, partition, before)]).values()
        future.result(20)

    def delete(self, topic):
        [future] = self.admin.delete_topics([topic]).values()
        future.result(20)


if __name__ == "__main__":
    scenarios.main(Confluent)
