package main

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kohort/e2e/clients/member"
)

// commitDone takes what the broker has acknowledged out of uncommitted.
func commitDone(
	offsets, uncommitted map[int32]kgo.EpochOffset, failed *error,
) func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	return func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			*failed = err
			return
		}
		done := map[int32]int64{}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					*failed = err
					continue
				}
				done[partition.Partition] = offsets[partition.Partition].Offset
				delete(uncommitted, partition.Partition)
			}
		}
		if len(done) > 0 {
			member.Say("committed", member.Offsets(done))
		}
	}
}
