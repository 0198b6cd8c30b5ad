// The scenarios with franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kohort/e2e/clients/scenarios"
)

type franz struct {
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
}

func main() {
	scenarios.Main(func(bootstrap string) (scenarios.Driver, error) {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...))
		if err != nil {
			return nil, err
		}
		return &franz{bootstrap, client, kadm.NewClient(client)}, nil
	})
}

func limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), scenarios.ReadWithin)
}

func (f *franz) Version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}

func (f *franz) Create(topic string, partitions int32, config map[string]string) error {
	ctx, cancel := limit()
	defer cancel()
	pointers := map[string]*string{}
	for name, value := range config {
		pointers[name] = &value
	}
	response, err := f.admin.CreateTopic(ctx, partitions, 1, pointers, topic)
	return errors.Join(err, response.Err)
}

func (f *franz) Partitions(topic string) (int, error) {
	ctx, cancel := limit()
	defer cancel()
	topics, err := f.admin.ListTopics(ctx)
	return len(topics[topic].Partitions), err
}

func (f *franz) Config(topic string) (map[string]string, error) {
	ctx, cancel := limit()
	defer cancel()
	found, err := f.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	config := map[string]string{}
	for _, resource := range found {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, entry := range resource.Configs {
			config[entry.Key] = entry.MaybeValue()
		}
	}
	return config, nil
}

func (f *franz) Produce(topic string, records []scenarios.Record, codec string, idempotent bool) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(f.bootstrap, ",")...), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !idempotent {
		// Without idempotence order holds only with one request in flight.
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := limit()
	defer cancel()
	var sent []*kgo.Record
	for _, record := range records {
		out := &kgo.Record{Topic: topic, Partition: record.Partition, Key: record.Key, Value: record.Value}
		if record.Timestamp != 0 {
			out.Timestamp = time.UnixMilli(record.Timestamp)
		}
		for _, header := range record.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
		}
		sent = append(sent, out)
	}
	return client.ProduceSync(ctx, sent...).FirstErr()
}

func (f *franz) Read(topic string, partition int32, start, until int64) ([]scenarios.Record, error) {
	var found []scenarios.Record
	if start >= until {
		return found, nil
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(f.bootstrap, ",")...), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(start)}}),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := limit()
	defer cancel()
	for {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, fmt.Errorf("read to %d of %d: %w", start, until, errs[0].Err)
		}
		for _, record := range fetches.Records() {
			if record.Offset >= until {
				return found, nil
			}
			var headers []scenarios.Header
			for _, header := range record.Headers {
				headers = append(headers, scenarios.Header{Key: header.Key, Value: header.Value})
			}
			found = append(found, scenarios.Record{
				Partition: partition, Offset: record.Offset, Key: record.Key, Value: record.Value,
				Timestamp: record.Timestamp.UnixMilli(), Headers: headers,
			})
			start = record.Offset + 1
		}
		if start >= until {
			return found, nil
		}
	}
}

func (f *franz) Bounds(topic string, partition int32) (int64, int64, error) {
	ctx, cancel := limit()
	defer cancel()
	begins, err := f.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := f.admin.ListEndOffsets(ctx, topic)
	begin, _ := begins.Lookup(topic, partition)
	end, _ := ends.Lookup(topic, partition)
	return begin.Offset, end.Offset, errors.Join(err, begin.Err, end.Err)
}

func (f *franz) AtTime(topic string, partition int32, timestamp int64) (int64, error) {
	ctx, cancel := limit()
	defer cancel()
	found, err := f.admin.ListOffsetsAfterMilli(ctx, timestamp, topic)
	if err != nil {
		return 0, err
	}
	offset, _ := found.Lookup(topic, partition)
	// Where every record is older kadm answers with the end and no time.
	if offset.Timestamp < 0 {
		return -1, offset.Err
	}
	return offset.Offset, offset.Err
}

func (f *franz) DeleteRecords(topic string, partition int32, before int64) error {
	ctx, cancel := limit()
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: before, LeaderEpoch: -1})
	response, err := f.admin.DeleteRecords(ctx, offsets)
	return errors.Join(err, response.Error())
}

func (f *franz) Delete(topic string) error {
	ctx, cancel := limit()
	defer cancel()
	response, err := f.admin.DeleteTopic(ctx, topic)
	return errors.Join(err, response.Err)
}
