// The scenarios with sarama.
package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"kohort/e2e/clients/scenarios"
)

type client struct {
	bootstrap []string
	admin     sarama.ClusterAdmin
	plain     sarama.Client
}

func main() {
	scenarios.Main(func(bootstrap string) (scenarios.Driver, error) {
		if bootstrap == "" {
			return &client{}, nil
		}
		addresses := strings.Split(bootstrap, ",")
		plain, err := sarama.NewClient(addresses, config())
		if err != nil {
			return nil, err
		}
		admin, err := sarama.NewClusterAdminFromClient(plain)
		return &client{addresses, admin, plain}, err
	})
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Return.Errors = true
	config.Metadata.AllowAutoTopicCreation = false
	return config
}

func (c *client) Version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/IBM/sarama" {
			return module.Version
		}
	}
	return "unknown"
}

func (c *client) Create(topic string, partitions int32, config map[string]string) error {
	entries := map[string]*string{}
	for name, value := range config {
		entries[name] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: entries}
	return c.admin.CreateTopic(topic, detail, false)
}

func (c *client) Partitions(topic string) (int, error) {
	topics, err := c.admin.ListTopics()
	return int(topics[topic].NumPartitions), err
}

func (c *client) Config(topic string) (map[string]string, error) {
	entries, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	found := map[string]string{}
	for _, entry := range entries {
		found[entry.Name] = entry.Value
	}
	return found, err
}

func encoder(bytes []byte) sarama.Encoder {
	if bytes == nil {
		return nil
	}
	return sarama.ByteEncoder(bytes)
}

func (c *client) Produce(topic string, records []scenarios.Record, codec string, idempotent bool) error {
	config := config()
	if err := config.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Idempotent = idempotent
	// Also without idempotence, where order holds only with one request in flight.
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(c.bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, record := range records {
		message := &sarama.ProducerMessage{
			Topic: topic, Partition: record.Partition, Key: encoder(record.Key), Value: encoder(record.Value),
		}
		if record.Timestamp != 0 {
			message.Timestamp = time.UnixMilli(record.Timestamp)
		}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
		}
		messages = append(messages, message)
	}
	return producer.SendMessages(messages)
}

func (c *client) Read(topic string, partition int32, start, until int64) ([]scenarios.Record, error) {
	var found []scenarios.Record
	if start >= until {
		return found, nil
	}
	consumer, err := sarama.NewConsumer(c.bootstrap, config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	stream, err := consumer.ConsumePartition(topic, partition, start)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	limit := time.After(scenarios.ReadWithin)
	for {
		select {
		case message := <-stream.Messages():
			if message.Offset >= until {
				return found, nil
			}
			var headers []scenarios.Header
			for _, header := range message.Headers {
				headers = append(headers, scenarios.Header{Key: string(header.Key), Value: header.Value})
			}
			found = append(found, scenarios.Record{
				Partition: partition, Offset: message.Offset, Key: message.Key, Value: message.Value,
				Timestamp: message.Timestamp.UnixMilli(), Headers: headers,
			})
			if message.Offset+1 >= until {
				return found, nil
			}
		case failure := <-stream.Errors():
			return nil, failure
		case <-limit:
			return nil, fmt.Errorf("read %d records of %d to %d", len(found), start, until)
		}
	}
}

func (c *client) Bounds(topic string, partition int32) (int64, int64, error) {
	begin, err := c.AtTime(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return 0, 0, err
	}
	end, err := c.AtTime(topic, partition, sarama.OffsetNewest)
	return begin, end, err
}

func (c *client) AtTime(topic string, partition int32, timestamp int64) (int64, error) {
	if err := c.plain.RefreshMetadata(topic); err != nil {
		return 0, err
	}
	return c.plain.GetOffset(topic, partition, timestamp)
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{partition: before})
}

func (c *client) Delete(topic string) error {
	return c.admin.DeleteTopic(topic)
}
