"""The scenarios with kafka-python."""

import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

import scenarios
from scenarios import Record


class KafkaPython(scenarios.Driver):
    cannot_send = {
        "null header": "kafka-python takes only bytes as the value of a header",
        "null key with null value": "kafka-python refuses a record with neither",
    }

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin_client = None

    def version(self):
        return kafka.__version__

    @property
    def admin(self):
        if self.admin_client is None:
            self.admin_client = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        return self.admin_client

    def create(self, topic, partitions, config):
        self.admin.create_topics({topic: {
            "num_partitions": partitions, "replication_factor": 1, "configs": config,
        }})

    def partitions(self, topic):
        for found in self.admin.describe_topics():
            if found["name"] == topic:
                return len(found["partitions"])
        return None

    def config(self, topic):
        found = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def produce(self, topic, records, codec="none", idempotent=False):
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec, acks="all",
            linger_ms=5, enable_idempotence=idempotent,
        )
        try:
            futures = [
                producer.send(topic, value=record.value, key=record.key, partition=record.partition,
                              headers=record.headers, timestamp_ms=record.timestamp)
                for record in records
            ]
            producer.flush(30)
            for future in futures:
                future.get(30)
        finally:
            producer.close()

    def consumer(self):
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none",
            check_crcs=True, fetch_max_wait_ms=100,
        )

    def read(self, topic, partition, start, until):
        consumer = self.consumer()
        found = []
        deadline = time.monotonic() + scenarios.READ_WITHIN
        try:
            where = TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, start)
            while start < until:
                for record in consumer.poll(500).get(where, []):
                    if record.offset >= until:
                        return found
                    start = record.offset + 1
                    found.append(Record(record.value, record.key, partition, record.timestamp,
                                        [(k, v) for k, v in record.headers], record.offset))
                if time.monotonic() > deadline:
                    raise AssertionError(f"read to {start} of {until}")
        finally:
            consumer.close()
        return found

    def bounds(self, topic, partition):
        consumer = self.consumer()
        try:
            where = TopicPartition(topic, partition)
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]
        finally:
            consumer.close()

    def at_time(self, topic, partition, timestamp):
        consumer = self.consumer()
        try:
            where = TopicPartition(topic, partition)
            found = consumer.offsets_for_times({where: timestamp})[where]
            return None if found is None else found.offset
        finally:
            consumer.close()

    def delete_records(self, topic, partition, before):
        self.admin.delete_records({TopicPartition(topic, partition): before})

    def delete(self, topic):
        self.admin.delete_topics([topic])

    def close(self):
        if self.admin_client is not None:
            self.admin_client.close()


if __name__ == "__main__":
    scenarios.main(KafkaPython)
