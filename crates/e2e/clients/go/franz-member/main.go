// A member of a group with franz-go.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kohort/e2e/clients/member"
)

var assignors = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func main() {
	arguments := member.Read()
	ctx, leave := context.WithCancel(context.Background())
	member.WhenTold(leave)
	// Between a poll and AllowRebalance nothing is revoked, so the callbacks meet no record half done.
	uncommitted := map[int32]kgo.EpochOffset{}

	commit := func(client *kgo.Client, only []int32) {
		offsets := map[int32]kgo.EpochOffset{}
		for _, partition := range only {
			if offset, found := uncommitted[partition]; found {
				offsets[partition] = offset
			}
		}
		if len(offsets) == 0 {
			return
		}
		limit, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		var failed error
		client.CommitOffsetsSync(limit, map[string]map[int32]kgo.EpochOffset{arguments.Topic: offsets},
			commitDone(offsets, uncommitted, &failed))
		if failed != nil {
			member.Say("trouble", "commit:", failed)
		}
	}
	forget := func(partitions []int32) {
		for _, partition := range partitions {
			delete(uncommitted, partition)
		}
	}

	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(arguments.Bootstrap, ",")...),
		kgo.ConsumerGroup(arguments.Group),
		kgo.ConsumeTopics(arguments.Topic),
		kgo.Balancers(assignors[arguments.Assignor]),
		kgo.SessionTimeout(arguments.Session),
		kgo.HeartbeatInterval(arguments.Heartbeat),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			member.Say("assigned", member.Partitions(assigned[arguments.Topic]))
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, revoked map[string][]int32) {
			partitions := revoked[arguments.Topic]
			if len(partitions) == 0 {
				return
			}
			commit(client, partitions)
			forget(partitions)
			member.Say("revoked", member.Partitions(partitions))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			forget(lost[arguments.Topic])
			member.Say("lost", member.Partitions(lost[arguments.Topic]))
		}),
	}
	if arguments.Instance != "" {
		options = append(options, kgo.InstanceID(arguments.Instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		member.Fail(err)
	}
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := client.PollRecords(poll, member.CommitRecords)
		cancel()
		fetches.EachRecord(func(record *kgo.Record) {
			member.Say("record", record.Partition, record.Offset, string(record.Value))
			uncommitted[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
		})
		fetches.EachError(func(_ string, partition int32, err error) {
			if err != context.DeadlineExceeded && err != context.Canceled {
				member.Say("trouble", fmt.Sprint("fetch ", partition, ":"), err)
			}
		})
		all := make([]int32, 0, len(uncommitted))
		for partition := range uncommitted {
			all = append(all, partition)
		}
		commit(client, all)
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	member.Say("left")
}
